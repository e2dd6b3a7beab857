"""What a program lets its users set: fields of configuration classes, options of parsers, parameters of commands."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unhang.evidence.items import SourceFile
from unhang.knowledge.collectives import source_names
from unhang.program.syntax.evaluation import UNKNOWN
from unhang.program.syntax.syntax_tree import (
    ParsedFile,
    call_name,
    dotted,
    parameters_of,
    parse_expression,
    parsed_files,
    statements,
)

_ADD_OPTION = {"add_argument", "add_arg"}
_LIBRARIES_OF_COMMANDS = ("fire", "typer", "tyro", "jsonargparse", "Fire", "CLI")


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """Something users may set. ``default`` is what holds where they do not; ``names``: how the command spells it."""

    name: str
    default: Any
    path: str
    line: int
    kind: str = ""
    """Last part of its type: ``int``, ``bool``, ``MetricsConfig``; empty where none is given."""
    names: tuple[str, ...] = ()
    flag: bool | None = None
    """The value that giving it without a value means."""
    several: bool = False
    """It takes more than one word."""

    @property
    def place(self) -> str:
        """``file:line`` of the declaration."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True)
class ConfigClass:
    """A class whose fields are settings, with the names of its bases. ``changed``: fields its own methods assign."""

    fields: dict[str, DeclaredSetting] = field(default_factory=dict)
    bases: tuple[str, ...] = ()
    changed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class DeclaredSettings:
    """All of a program: classes by name, options of parsers by destination, parameters by function."""

    classes: dict[str, ConfigClass] = field(default_factory=dict)
    options: dict[str, list[DeclaredSetting]] = field(default_factory=dict)
    commands: dict[tuple[str, int], dict[str, DeclaredSetting]] = field(default_factory=dict)
    """Parameters of the functions that a command line calls, by file and line of the function."""
    more: bool = False
    """A parser has options that no line spells out: their names are computed, or a library adds them."""

    def field_of(self, kind: str, name: str, deep: int = 8) -> DeclaredSetting | None:
        """The field ``name`` of the class ``kind`` or of one of its bases."""
        found = self.classes.get(kind)
        if found is None or deep <= 0:
            return None
        return found.fields.get(name) or next(
            (one for base in found.bases if (one := self.field_of(base, name, deep - 1)) is not None), None
        )

    def is_changed(self, kind: str, name: str, deep: int = 8) -> bool:
        """A method of the class, or of a base, assigns the field."""
        found = self.classes.get(kind)
        if found is None or deep <= 0:
            return False
        return name in found.changed or any(self.is_changed(base, name, deep - 1) for base in found.bases)


def find_declared_settings(files: Iterable[SourceFile]) -> DeclaredSettings:
    """What all ``files`` declare. A class or option that two of them declare differently has no known default."""
    found = DeclaredSettings()
    programs = list(parsed_files(files))
    own = {getattr(node, "name", "") for _, program in programs for node in program.owners}
    for file, program in programs:
        _add(found, file.path, program, file.text, own)
    _inherit(found)
    return found


def _adds_more(calls: Sequence[ast.Call], own: Container[str]) -> bool:
    """``add_argument(*names)``, or the parser is handed to what is not the program's own: ``library.add(parser)``. A
    parser that passes over what it does not know adds nothing to what another one knows."""
    adding = [call for call in calls if call_name(call) in _ADD_OPTION]
    parsers = set(map(_receiver, adding)) - {""}
    handed = (call_name(call) for call in calls if any(dotted(one) in parsers for one in call.args))
    computed = {_receiver(call) for call in adding if call.args and not isinstance(call.args[0], ast.Constant)}
    lenient = {_receiver(call) for call in calls if call_name(call) == "parse_known_args"}
    strict = {_receiver(call) for call in calls if call_name(call) == "parse_args"}
    return any(name not in own for name in handed) or bool(computed - (lenient - strict))


def _receiver(call: ast.Call) -> str:
    return dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _add(found: DeclaredSettings, path: str, program: ParsedFile, text: str, own: Container[str]) -> None:
    constants = dict(constants_of(program.tree))
    run_as_command = set(_called_as_commands(program.tree)) if any(w in text for w in _LIBRARIES_OF_COMMANDS) else set()
    for node in statements(program.tree):
        if isinstance(node, ast.ClassDef):
            _add_class(found, path, node, constants)
        elif isinstance(node, ast.FunctionDef) and (_is_command(node) or node.name in run_as_command):
            found.commands[path, node.lineno] = dict(_parameters(node, path, constants))
    if any(word in text for word in _ADD_OPTION):
        calls = [node for node in ast.walk(program.tree) if isinstance(node, ast.Call)]
        found.more |= _adds_more(calls, own)
        for call in (one for one in calls if call_name(one) in _ADD_OPTION):
            for one in _option(call, path, constants):
                found.options.setdefault(one.name, []).append(one)


def _add_class(found: DeclaredSettings, path: str, node: ast.ClassDef, constants: Mapping[str, Any]) -> None:
    bases = tuple(dotted(base).rpartition(".")[2] for base in node.bases)
    fields = dict(_class_fields(node, path, constants))
    if not fields and not bases:
        return
    methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
    stored = {
        target.attr
        for method in methods
        for statement in statements(method)
        for target in targets_of(statement)
        if isinstance(target, ast.Attribute) and dotted(target.value) == "self"
    }
    one = ConfigClass(fields if _is_config(node, bases) else {}, bases, stored)
    if fields and not one.fields:
        one.fields = fields if any(base.endswith(("Config", "Arguments", "Args")) for base in bases) else {}
    known = found.classes.get(node.name)
    if known is not None and node.name not in bases:
        for name in known.fields.keys() | one.fields.keys():
            before, now = known.fields.get(name), one.fields.get(name)
            if before is None or now is None or before.default != now.default:
                told = before or now
                if told is not None:
                    one.fields[name] = DeclaredSetting(name, UNKNOWN, told.path, told.line, told.kind)
    elif known is not None:  # class GRPOConfig(trl.GRPOConfig): the nearer one counts, the other stands behind it
        one.fields = {**known.fields, **one.fields}
        one.changed |= known.changed
        one.bases = tuple(base for base in (*known.bases, *bases) if base != node.name)
    found.classes[node.name] = one


def _is_config(node: ast.ClassDef, bases: tuple[str, ...]) -> bool:
    decorators = {dotted(d.func if isinstance(d, ast.Call) else d).rpartition(".")[2] for d in node.decorator_list}
    return bool(decorators & source_names("config_decorator")) or bool(set(bases) & source_names("config_base"))


def _inherit(found: DeclaredSettings) -> None:
    """Classes that neither have fields nor inherit some are nobody's settings."""

    def counts(name: str, deep: int = 8) -> bool:
        one = found.classes.get(name)
        return one is not None and deep > 0 and (bool(one.fields) or any(counts(base, deep - 1) for base in one.bases))

    for name in [name for name in found.classes if not counts(name)]:
        del found.classes[name]


def _class_fields(node: ast.ClassDef, path: str, constants: Mapping[str, Any]) -> Iterator[tuple[str, DeclaredSetting]]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            value = UNKNOWN if one.value is None else default_of(one.value, constants)
            name, kind = one.target.id, annotated_class(one.annotation)
            yield name, DeclaredSetting(name, value, path, one.lineno, kind)


def default_of(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """A literal, ``field(default=…)``, ``default_factory=lambda: […]``; UNKNOWN for everything else."""
    if isinstance(node, ast.Call) and call_name(node) in source_names("config_field"):
        given = {word.arg: word.value for word in node.keywords if word.arg}
        if "default" in given:
            return default_of(given["default"], constants)
        factory = given.get("default_factory") or given.get("factory")
        if isinstance(factory, ast.Lambda):
            return default_of(factory.body, constants)
        if isinstance(factory, ast.Name):
            return {"list": [], "dict": {}, "set": set(), "tuple": ()}.get(factory.id, UNKNOWN)
        return default_of(node.args[0], constants) if node.args and call_name(node) != "field" else UNKNOWN
    if isinstance(node, ast.Name):
        return constants.get(node.id, UNKNOWN)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
    return UNKNOWN if value is ... else value


def annotated_class(annotation: ast.expr | None) -> str:
    """``MetricsConfig`` of ``"Optional[configs.MetricsConfig]"``; empty where nothing or too much is said."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = parse_expression(annotation.value)
    if isinstance(annotation, ast.Subscript) and dotted(annotation.value).rpartition(".")[2] in (
        "Optional",
        "Annotated",
    ):
        inner = annotation.slice
        return annotated_class(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
    if isinstance(annotation, ast.BinOp):
        return annotated_class(annotation.left)
    return dotted(annotation).rpartition(".")[2] if annotation is not None else ""


def constants_of(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Names that the module gives a literal, and only once."""
    seen: dict[str, int] = {}
    given: dict[str, ast.expr] = {}
    for node in statements(tree):
        for target in targets_of(node):
            if isinstance(target, ast.Name):
                seen[target.id] = seen.get(target.id, 0) + 1
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            given |= {target.id: node.value for target in targets_of(node) if isinstance(target, ast.Name)}
    for name, value in given.items():
        if seen.get(name) == 1 and (known := default_of(value, {})) is not UNKNOWN:
            yield name, known


def targets_of(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns, tuples taken apart."""
    if isinstance(node, ast.Assign):
        wanted = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        wanted = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        wanted = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        return []
    flat: list[ast.expr] = []
    while wanted:
        one = wanted.pop()
        wanted += one.elts if isinstance(one, ast.Tuple | ast.List) else []
        flat += [] if isinstance(one, ast.Tuple | ast.List) else [one]
    return flat


def _option(call: ast.Call, path: str, constants: Mapping[str, Any]) -> Iterator[DeclaredSetting]:
    """``add_argument("--lr", type=float, default=1e-4)``; positional ones have no default that matters."""
    spelled = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    options = [name for name in spelled if name.startswith("-")]
    given = {word.arg: word.value for word in call.keywords if word.arg}
    if not options:
        return
    names = tuple(name.lstrip("-").replace("-", "_") for name in options)
    longest = next((n for n, o in zip(names, options, strict=True) if o.startswith("--")), names[0])
    dest = default_of(given["dest"], constants) if "dest" in given else longest
    action = given.get("action")
    does = action.value if isinstance(action, ast.Constant) else dotted(action).rpartition(".")[2] if action else ""
    switch = {"store_true": True, "store_false": False, "BooleanOptionalAction": True}.get(str(does))
    otherwise = (not switch) if does in ("store_true", "store_false") else None
    default = default_of(given["default"], constants) if "default" in given else otherwise
    if any(word.arg is None for word in call.keywords) or does in ("append", "extend", "count", "store_const"):
        default = UNKNOWN
    several = "nargs" in given or does in ("append", "extend")
    yield DeclaredSetting(
        str(dest), default, path, call.lineno, annotated_class(given.get("type")) or "str", names, switch, several
    )


def _is_command(node: ast.FunctionDef) -> bool:
    """``@click.command()``, ``@app.command``, ``@hydra.main`` is none: its parameter is the configuration."""
    return any(
        dotted(d.func if isinstance(d, ast.Call) else d).rpartition(".")[2] in source_names("command_decorator")
        for d in node.decorator_list
    )


def _called_as_commands(tree: ast.Module) -> Iterator[str]:
    """``fire.Fire(main)``, ``typer.run(main)``, ``tyro.cli(main)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or call_name(node) not in source_names("calls_command") or not node.args:
            continue
        if dotted(node.func).partition(".")[0] in _LIBRARIES_OF_COMMANDS:
            yield dotted(node.args[0])


def _parameters(
    node: ast.FunctionDef, path: str, constants: Mapping[str, Any]
) -> Iterator[tuple[str, DeclaredSetting]]:
    """Parameters with their defaults, or with those of ``@click.option`` above them."""
    for one, value in parameters_of(node).values():
        default = UNKNOWN if value is None else default_of(value, constants)
        yield one.arg, DeclaredSetting(one.arg, default, path, one.lineno, annotated_class(one.annotation))
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and call_name(decorator) == "option":
            for setting in _option(decorator, path, constants):
                default = setting.default if any(w.arg == "default" for w in decorator.keywords) else None
                switch = any(w.arg == "is_flag" for w in decorator.keywords)
                default = False if switch and default is None else default
                told = replace(setting, default=default, flag=switch or None, several=False)
                yield setting.name.partition("/")[0], told
