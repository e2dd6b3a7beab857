"""Which names of a program hold its configuration: ``args = parser.parse_args()``, ``cfg: TrainConfig``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unhang.evidence.items import SourceFile
from unhang.knowledge.collectives import source_names
from unhang.program.settings.declared_options import DeclaredSettings, annotated_class, targets_of
from unhang.program.syntax.syntax_tree import (
    ParsedFile,
    Scope,
    blocks,
    call_name,
    dotted,
    own_nodes,
    parameters_of,
    parsed_files,
    statements,
)

OPTIONS = "*"
"""The kind of what a parser of options returns; every other kind is the name of a class."""
_SETS_ITEMS = {"update", "setdefault", "pop", "popitem", "clear", "putenv"}
_OWN_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class AttributeAssignment:
    """``owner.name = value`` in a file. ``value``: None where a loop, an unpacking, or ``+=`` gives it, or a branch."""

    name: str
    owner: ast.expr
    value: ast.expr | None
    path: str
    scopes: tuple[Scope, ...]


@dataclass(slots=True)
class ConfigNames:
    """``everywhere``: kinds by name, over all files. ``made_otherwise``: fields (or ``*``, all) of classes that are
    made with values of the program's own. ``changed``: names of attributes that something assigns after that."""

    declared: DeclaredSettings
    everywhere: dict[str, set[str]] = field(default_factory=dict)
    made_otherwise: dict[str, set[str]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    stored: dict[str, list[AttributeAssignment]] = field(default_factory=dict)
    """Where attributes are assigned, by name."""
    returned: dict[str, tuple[str, ...]] = field(default_factory=dict)
    filled_in: dict[str, bool] = field(default_factory=dict)
    """Kinds whose attributes a loop sets by names that only running tells; True: only those that are None."""
    _functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    """Classes whose fields the command line knows by their own names."""
    _shadowed: set[str] = field(default_factory=set)
    _aliases: dict[str, str] = field(default_factory=dict)
    _in_scope: dict[Scope, dict[str, list[ast.expr | None]]] = field(default_factory=dict)

    def kinds(self, name: str, scopes: Sequence[Scope]) -> set[str]:
        """What ``name`` holds where it is read; empty where that is no configuration, or not known."""
        for scope in reversed(scopes):
            if not isinstance(scope, ast.Module):
                annotated = {one: arg.annotation for one, (arg, _) in parameters_of(scope).items()}
                if name in annotated:
                    kind = self.real(annotated_class(annotated[name]))
                    return {kind} if kind in self.declared.classes else self._anywhere(name, annotated[name])
            values = [value for value in self.assigned(scope).get(name, ()) if not _is_itself(value, name)]
            if values:
                found = [self.of_value(value) for value in values]
                return set.union(*found) if all(found) else set()
        return self.everywhere.get(name, set())

    def _anywhere(self, name: str, annotation: ast.expr | None) -> set[str]:
        """A parameter whose type says something else is no configuration."""
        said = annotated_class(annotation)
        return set() if said and said not in ("Namespace", "Any", "object") else self.everywhere.get(name, set())

    def assigned(self, scope: Scope) -> Mapping[str, Sequence[ast.expr | None]]:
        """Values that a scope gives its names; None where a loop or an unpacking does."""
        if scope not in self._in_scope:
            found: dict[str, list[ast.expr | None]] = {}
            for name, value in _bindings(_own_statements(scope)):
                found.setdefault(name, []).append(value)
            self._in_scope[scope] = found
        return self._in_scope[scope]

    def of_value(self, value: ast.expr | None) -> set[str]:
        """The kinds of an assigned value: a parser's answer, an instance of a class, another such name."""
        match value:
            case ast.Subscript(value=call, slice=ast.Constant(value=int(at))):
                kinds = self._of_call(call)
                return {kinds[at]} if at < len(kinds) else set(kinds[:1])
            case ast.Call():
                return set(self._of_call(value)[:1])
            case ast.Name(id=other) | ast.Attribute(attr=other):
                return self.everywhere.get(other, set())
        return set()

    def real(self, name: str) -> str:
        """The class behind ``import train_config as TRAIN_CONFIG``."""
        return name if name in self.declared.classes else self._aliases.get(name, name)

    def _of_call(self, call: ast.expr) -> tuple[str, ...]:
        """The kinds of what a call returns, one for each part of a tuple."""
        if not isinstance(call, ast.Call):
            return ()
        name = self.real(call_name(call))
        if name in source_names("parses_options"):
            return self.parsed.get(id(call), (OPTIONS,))
        if name in ("cli", "CLI") and call.args:
            kind = self.real(dotted(call.args[0]).rpartition(".")[2])
            return (kind,) if kind in self.declared.classes else ()
        if name in self.declared.classes:
            return (name,)
        return self.returned.get(name, ())

    def given(self, scope: Scope, name: str) -> Sequence[tuple[ast.expr, str, Sequence[Scope]]] | None:
        """What the calls of a function of the program give its parameter, each with its file and scopes.

        None where that is not all: the function is handed to something else, two have its name, a call unpacks.
        """
        if isinstance(scope, ast.Module) or self._defined.get(scope.name) != 1:
            return None
        calls = self._called.get(scope.name, [])
        if len(calls) != self._mentioned.get(scope.name, 0):
            return None
        names = [one.arg for one in (*scope.args.posonlyargs, *scope.args.args)]
        found: list[tuple[ast.expr, str, Sequence[Scope]]] = []
        for call, path, scopes in calls:
            words = {word.arg: word.value for word in call.keywords}
            if None in words or any(isinstance(one, ast.Starred) for one in call.args):
                return None
            at = names.index(name) if name in names else len(call.args)
            value = words.get(name) or (call.args[at] if at < len(call.args) else None)
            if value is None:
                return None
            found.append((value, path, scopes))
        return found

    def _read_scopes(self, program: ParsedFile, path: str) -> None:
        """Functions, where their names stand and are called, and every attribute that is given a value."""
        for scope, outer in program.owners.items():
            scopes, always = (*outer, scope), {id(statement) for statement in scope.body}
            if not isinstance(scope, ast.Module):
                self._defined[scope.name] += 1
            for node in own_nodes(scope):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    self._called.setdefault(node.func.id, []).append((node, path, scopes))
                if isinstance(node, ast.Call | ast.Subscript):
                    self._read_item(node)
                if isinstance(node, ast.Name | ast.Attribute):
                    self._mentioned[getattr(node, "id", getattr(node, "attr", ""))] += 1
                elif isinstance(node, ast.ImportFrom):
                    self._mentioned.update(one.name for one in node.names if one.asname)
                for owner, name, value in _attributes_set(node, always=id(node) in always):
                    one = AttributeAssignment(name, owner, value, path, scopes)
                    self.stored.setdefault(name, []).append(one)

    def _read_item(self, node: ast.Call | ast.Subscript) -> None:
        """``table[key] = value``, ``table.setdefault(key, value)``, ``table.update(more)``."""
        if isinstance(node, ast.Subscript):
            owner, keys = node.value, [] if isinstance(node.ctx, ast.Load) else [node.slice]
        else:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            keys = node.args[:1] if call_name(node) in _SETS_ITEMS else []
        for key in keys:
            name = str(key.value) if isinstance(key, ast.Constant) else "*"
            self.items_set.setdefault(dotted(owner).rpartition(".")[2], set()).add(name)

    items_set: dict[str, set[str]] = field(default_factory=dict)
    """Keys that the program sets in its dictionaries, by the name of these; ``*`` where only running tells."""
    _defined: Counter[str] = field(default_factory=Counter)
    _called: dict[str, list[tuple[ast.Call, str, Sequence[Scope]]]] = field(default_factory=dict)
    _mentioned: Counter[str] = field(default_factory=Counter)
    parsed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Classes that a parser fills, by its call."""

    def read(self, files: Iterable[SourceFile]) -> None:
        """Learn the names of all ``files``: twice, because some stand for others."""
        told = list(parsed_files(files))
        for file, program in told:
            self._read_scopes(program, file.path)
            self._read_aliases(program.tree)
        self.changed |= self.stored.keys()
        aliases = {alias for alias, name in self._aliases.items() if name in self.declared.classes}
        words = source_names("parses_options") | self.declared.classes.keys() | aliases
        named = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(words))) + r")\b")
        for file, program in told:
            if named.search(file.text):
                self._read_classes(program)
        for _, program in told * 2:
            self._read_names(program)
        for file, program in told:
            if "setattr(" in file.text:
                self._read_fills(program)

    def _read_fills(self, program: ParsedFile) -> None:
        """``for name, value in found.items(): setattr(args, name, value)``."""
        for scope, outer in program.owners.items():
            for loop in _own_statements(scope):
                if not isinstance(loop, ast.For | ast.AsyncFor):
                    continue
                for call in (node for node in ast.walk(loop) if isinstance(node, ast.Call)):
                    sets = call_name(call) == "setattr" and len(call.args) == 3
                    if sets and not isinstance(call.args[1], ast.Constant):
                        self._filled(loop, call, scope, outer)

    def _filled(self, loop: ast.For | ast.AsyncFor, call: ast.Call, scope: Scope, outer: Sequence[Scope]) -> None:
        owner = getattr(call.args[0], "id", getattr(call.args[0], "attr", ""))
        kinds = self.kinds(owner, (*outer, scope))
        made = loop.iter.func if isinstance(loop.iter, ast.Call) else None
        given = getattr(made.value, "id", "") if isinstance(made, ast.Attribute) else ""
        if isinstance(scope, ast.FunctionDef) and scope.args.kwarg is not None and scope.args.kwarg.arg == given:
            return  # what the command line said, handed down
        tables = [self._table(value) for value in self.assigned(scope).get(given, ())]
        if tables and all(tables):
            self.changed |= set().union(*tables)
            return
        guards = [node for node in ast.walk(loop) if isinstance(node, ast.If) and call in ast.walk(node)]
        only_none = any("is None" in ast.unparse(guard.test) for guard in guards)
        for kind in kinds:
            self.filled_in[kind] = self.filled_in.get(kind, True) and only_none

    def _table(self, value: ast.expr | None) -> set[str]:
        """The keys of a dictionary, or of all that a function of the program builds."""
        inside: ast.AST | None = value
        if isinstance(value, ast.Call):
            inside = self._functions.get(call_name(value))
        return {
            str(key.value)
            for node in (ast.walk(inside) if inside is not None else ())
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant)
        }

    def _read_aliases(self, tree: ast.Module) -> None:
        for node in statements(tree):
            if isinstance(node, ast.FunctionDef):
                self._functions[node.name] = node
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._aliases |= {one.asname: one.name.rpartition(".")[2] for one in node.names if one.asname}

    def _read_classes(self, program: ParsedFile) -> None:
        """How classes are made, and which attributes are assigned."""
        nodes = list(program.nodes)
        self._shadowed = {one.arg for one in nodes if isinstance(one, ast.arg)}
        self._shadowed |= {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        filled = [kinds for node in nodes if (kinds := self._fills(node))]
        self.roots |= {kind for kinds in filled for kind in kinds}
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            name = self.real(call_name(node))
            if name in source_names("parses_options") and filled:
                self.parsed[id(node)] = filled[0] if len(filled) == 1 else (OPTIONS,)
            if name in self.declared.classes:
                given = {word.arg or "*" for word in node.keywords} | ({"*"} if node.args else set())
                self.made_otherwise.setdefault(name, set()).update(given)
            elif name not in source_names("keeps_defaults") and not name.endswith("Parser"):
                for kind in self._classes_in((*node.args, *(word.value for word in node.keywords))):
                    self.made_otherwise.setdefault(kind, set()).add("*")
                if isinstance(node.func, ast.Attribute) and (kind := self._class(node.func.value)):
                    self.made_otherwise.setdefault(kind, set()).add("*")  # TrainConfig.from_file(…)

    def _fills(self, node: ast.AST) -> tuple[str, ...]:
        """``HfArgumentParser((A, B))``."""
        if not isinstance(node, ast.Call) or not call_name(node).endswith("Parser") or not node.args:
            return ()
        listed = node.args[0].elts if isinstance(node.args[0], ast.Tuple | ast.List) else [node.args[0]]
        kinds = tuple(self._class(one) for one in listed)
        return kinds if any(kinds) else ()

    def _class(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Name | ast.Attribute) or getattr(node, "id", "") in self._shadowed:
            return ""  # an instance of it, often of the same name
        name = self.real(dotted(node).rpartition(".")[2])
        return name if name in self.declared.classes else ""

    def _classes_in(self, nodes: Iterable[ast.expr]) -> Iterator[str]:
        for node in nodes:
            for one in node.elts if isinstance(node, ast.Tuple | ast.List) else [node]:
                if kind := self._class(one):
                    yield kind

    def _read_names(self, program: ParsedFile) -> None:
        for scope in (program.tree, *_functions(program.tree)):
            for name, value in _bindings(_own_statements(scope)):
                if (kinds := self.of_value(value)) and not _is_itself(value, name):
                    self.everywhere.setdefault(name, set()).update(kinds)
            if isinstance(scope, ast.Module):
                continue
            for name, (arg, _) in parameters_of(scope).items():
                if (kind := self.real(annotated_class(arg.annotation))) in self.declared.classes:
                    self.everywhere.setdefault(name, set()).add(kind)
            if kinds_back := self._returns(scope):
                self.returned[scope.name] = kinds_back
        for node in statements(program.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                self._unpacked(node.targets[0].elts, node.value)

    def _unpacked(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        """``model_args, data_args = parser.parse_args_into_dataclasses()``."""
        each = value.elts if isinstance(value, ast.Tuple) else []
        kinds = [next(iter(self.of_value(one)), "") for one in each] or self._of_call(value)
        for target, kind in zip(targets, kinds, strict=False):
            name = getattr(target, "id", getattr(target, "attr", ""))
            if name and kind:
                self.everywhere.setdefault(name, set()).add(kind)

    def _returns(self, scope: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
        for node in _own_statements(scope):
            if isinstance(node, ast.Return) and node.value is not None:
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if isinstance(node.value, ast.Call) and (kinds := self._of_call(node.value)):
                    return kinds
                each = [self._returned(value, scope) for value in values]
                if all(each):
                    return tuple(each)
        return ()

    def _returned(self, value: ast.expr, scope: Scope) -> str:
        if not isinstance(value, ast.Name):
            return ""
        kinds = self.kinds(value.id, (scope,))
        return next(iter(kinds)) if len(kinds) == 1 else ""


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in statements(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _own_statements(scope: Scope) -> Iterator[ast.stmt]:
    """The statements of a scope, without those of functions and classes inside it."""
    waiting: list[ast.AST] = [scope]
    while waiting:
        for _, _, block in blocks(waiting.pop()):
            yield from block
            waiting += [one for one in block if not isinstance(one, _OWN_NAMES)]


def _bindings(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr | None]]:
    """``name = value`` and ``self.name = value``; one that is emptied says nothing."""
    for node in nodes:
        if isinstance(node, ast.For | ast.AsyncFor) and isinstance(node.target, ast.Name):
            yield node.target.id, None
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Tuple):
                continue  # learnt from what is unpacked, see ConfigNames
            name = (
                target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
            )
            if name and not (isinstance(value, ast.Constant) and value.value is None):
                yield name, value


def _is_itself(value: ast.expr | None, name: str) -> bool:
    """``self.args = args``: a name that stands for itself says nothing of what it holds."""
    return getattr(value, "id", getattr(value, "attr", "")) == name


def _attributes_set(node: ast.AST, *, always: bool) -> Iterator[tuple[ast.expr, str, ast.expr | None]]:
    """Attributes that ``node`` gives a value; those of ``self`` are no settings' unless their class says so."""
    if isinstance(node, ast.Call) and call_name(node) == "setattr" and len(node.args) == 3:
        owner, name, _ = node.args
        if isinstance(name, ast.Constant):
            yield owner, str(name.value), None
    for target in targets_of(node):
        if isinstance(target, ast.Attribute) and dotted(target.value) != "self":
            yield target.value, target.attr, _always_given(node, target) if always else None


def _always_given(node: ast.AST, target: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Assign):
        return node.value if target in node.targets else None
    return node.value if isinstance(node, ast.AnnAssign) else None
