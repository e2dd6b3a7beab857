"""What a test says in this launch: comparisons, truth, ``is None``, ``in``, and, or, not over known settings.

What is not known stays unknown: a test is decided only where every value that decides it is in force.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any

from unhang.evidence.items import SourceFile
from unhang.program.program_source import UntakenBranch
from unhang.program.settings.configuration_names import OPTIONS, ConfigNames
from unhang.program.settings.option_values import EffectiveValue, common_value
from unhang.program.settings.program_settings import ProgramSettings
from unhang.program.settings.untaken_branches import without_untaken
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import (
    Scope,
    blocks,
    call_name,
    dotted,
    own_nodes,
    parameters_of,
    parse_file,
    parsed_files,
    walk,
)

_METHODS = {"lower", "upper", "strip", "startswith", "endswith"}
_ENVIRON = ("os.environ", "environ")
_ASKS = ("os.environ.get", "environ.get", "os.getenv", "getenv")
_MAX_LOOKS = 200
"""Values looked at for one test: names may stand for each other in a circle."""
_Around = tuple[tuple[ast.If, str], ...]
_MAIN = ("hydra.main", "hydra_main", "hydra_runner")
_MAKES_TREE = {"OmegaConf.load", "OmegaConf.merge"}
_DEEP = 8


@dataclass
class TestEvaluation(Evaluation):
    """One test in one file. ``used``: the settings that were looked up on the way."""

    settings: ProgramSettings
    path: str
    scopes: Sequence[Scope]
    used: list[EffectiveValue] = field(default_factory=list)
    lookups: int = 0
    busy: set[tuple[Scope, str]] = field(default_factory=set)
    """Names that are being looked up: they may stand for each other in a circle."""

    def there(self, path: str, scopes: Sequence[Scope]) -> TestEvaluation:
        """The same at another place of the program."""
        return TestEvaluation(self.settings, path, scopes, self.used, self.lookups, self.busy)

    def may_look_up(self) -> bool:
        """Count one evaluation; False after too many."""
        self.lookups += 1
        return self.lookups <= _MAX_LOOKS

    def value(self, node: ast.expr) -> Any:
        """The value of ``node``, or UNKNOWN."""
        if not self.may_look_up():
            return UNKNOWN
        return super().value(node)

    def held(self, node: ast.expr) -> Any:
        """What a name, an option or a setting holds in this launch."""
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if (told := configuration_value(self, node)) is not None:
            return self._noted(told)
        if isinstance(node, ast.Attribute):
            return self._attribute(node.value, node.attr)
        if (name := variable_read(node)) is not None:
            return UNKNOWN if self.sets_variable(name) else self._noted(self.settings.values.variable(name))
        return super().held(node)

    def sets_variable(self, name: str) -> bool:
        """The program itself may give the variable of the environment a value."""
        items = self.settings.names.items_set
        return not {name, "*"}.isdisjoint(items.get("environ", set()) | items.get("os", set()))

    def _name(self, name: str) -> Any:
        key = (self.scopes[-1], name)
        if key in self.busy:
            return UNKNOWN
        self.busy.add(key)
        try:
            return self._named(name)
        finally:
            self.busy.discard(key)

    def _named(self, name: str) -> Any:
        for scope in reversed(self.scopes):
            if isinstance(scope, ast.Module):
                return module_value(self, scope, name)
            told = self.settings.declared.commands.get((self.path, scope.lineno), {}).get(name)
            assigned = self.settings.names.assigned(scope).get(name, ())
            if told is not None and not assigned:
                return self._noted(self.settings.of_parameter(told))
            if name in (stores := _stores(scope)):
                if len(assigned) == 1 and stores[name] == 1 and assigned[0]:
                    return self.value(assigned[0])
                if stores[name] > 1 and (left := only_reached_value(self, scope, name, stores[name])) is not None:
                    return self.value(left)
                return parameter_value(self, scope, name) if not assigned and stores[name] == 1 else UNKNOWN
        return UNKNOWN

    def _attribute(self, owner: ast.expr, name: str) -> Any:
        kinds = self.kinds(owner)
        found = [
            one
            for kind in sorted(kinds)
            if (one := self.settings.of_option(name) if kind == OPTIONS else self.settings.of_class(kind, name))
            is not None
        ]
        group = self._attribute_behind(owner) if not kinds else None
        if group is not None and (one := self.settings.of_option(f"{group.attr}.{name}")):
            found = [one]  # ``job_config.metrics.log_freq``, from ``--metrics.log_freq``
        if not found and kinds:
            return assigned_setting_value(self, kinds, name)
        told = common_value(found)
        return UNKNOWN if told is None else self._noted(told)

    def kinds(self, node: ast.expr) -> set[str]:
        """What ``node`` holds: classes of settings, or a parser's options; empty where that is not known."""
        names = self.settings.names
        if not self.may_look_up():
            return set()
        if isinstance(node, ast.Name):
            kinds = names.kinds(node.id, self.scopes)
            return kinds or self._kinds_of_assigned(node.id)
        if not isinstance(node, ast.Attribute):
            return set()
        above = self.kinds(node.value)
        inner = {
            names.real(one.kind)
            for kind in above
            if (one := self.settings.declared.field_of(kind, node.attr)) is not None
        }
        known = {kind for kind in inner if kind in self.settings.declared.classes}
        return known or (set() if above else names.everywhere.get(node.attr, set()))

    def _attribute_behind(self, node: ast.expr) -> ast.Attribute | None:
        """``job_config.metrics``, also as ``metrics = job_config.metrics`` above."""
        if isinstance(node, ast.Attribute):
            return node
        values = self.settings.names.assigned(self.scopes[-1]).get(node.id, ()) if isinstance(node, ast.Name) else ()
        return values[0] if len(values) == 1 and isinstance(values[0], ast.Attribute) else None

    def _kinds_of_assigned(self, name: str) -> set[str]:
        """``metrics = job_config.metrics`` above."""
        for scope in reversed(self.scopes):
            values = self.settings.names.assigned(scope).get(name, ())
            if values:
                one = values[0]
                return self.kinds(one) if len(values) == 1 and isinstance(one, ast.Attribute) else set()
        return set()

    def called(self, node: ast.Call) -> Any:
        """Also what ``getattr``, ``timedelta`` and the methods of texts give."""
        name = call_name(node)
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            return self._attribute(node.args[0], str(node.args[1].value))
        if name == "timedelta":
            words = {word.arg: self.value(word.value) for word in node.keywords}
            return _span([self.value(one) for one in node.args], words)
        if not isinstance(node.func, ast.Attribute) or name not in _METHODS or node.keywords:
            return super().called(node)
        owner, each = self.value(node.func.value), [self.value(one) for one in node.args]
        return getattr(owner, name)(*each) if all(isinstance(one, str) for one in (owner, *each)) else UNKNOWN

    def _noted(self, one: EffectiveValue) -> Any:
        if one.value is not UNKNOWN:
            self.used.append(one)
        return one.value


def variable_read(node: ast.expr) -> str | None:
    """``NAME`` of ``os.environ["NAME"]``, ``os.environ.get("NAME", …)`` and ``os.getenv("NAME")``; None for others."""
    match node:
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))) if dotted(owner) in _ENVIRON:
            return name
        case ast.Call(func=asked, args=[ast.Constant(value=str(name)), *_]) if dotted(asked) in _ASKS:
            return name
    return None


def configuration_value(one: TestEvaluation, node: ast.expr) -> EffectiveValue | None:
    """What the files and the command say at ``cfg.a.b``, ``cfg["a"]`` or ``cfg.get("a", 1)``; None for other things."""
    path = configuration_path(one.settings.names, one.scopes, node)
    if not path:
        return None
    if path.rpartition(".")[2] in one.settings.names.changed:
        return EffectiveValue(path, UNKNOWN, "")
    told = one.settings.values.at(path)
    if told is None and isinstance(node, ast.Call) and len(node.args) > 1:
        return EffectiveValue(path, one.value(node.args[1]), f"{one.path}:{node.lineno}")
    return told or EffectiveValue(path, UNKNOWN, "")


def module_value(one: TestEvaluation, module: ast.Module, name: str) -> Any:
    """A name that the module gives one value, and no function another."""
    values = one.settings.names.assigned(module).get(name, ())
    if len(values) != 1 or values[0] is None or name in _globals(module) or not one.may_look_up():
        return UNKNOWN
    return one.there(one.path, (module,)).value(values[0])


def parameter_value(one: TestEvaluation, scope: Scope, name: str) -> Any:
    """A parameter that every call gives the same setting: ``make(args.path, args.kind)``."""
    found = []
    for value, path, scopes in one.settings.names.given(scope, name) or ():
        if not one.may_look_up():
            return UNKNOWN
        there = one.there(path, scopes)
        found.append(there.value(value))
        one.lookups = there.lookups
        if found[-1] is UNKNOWN:
            return UNKNOWN
    return found[0] if found and all(other == found[0] for other in found) else UNKNOWN


def assigned_setting_value(one: TestEvaluation, kinds: set[str], name: str) -> Any:
    """An attribute that no parser knows, and that one place of the program puts on its settings."""
    names = one.settings.names
    places = names.stored.get(name, ())
    stored = places[0] if len(places) == 1 else None
    if stored is None or stored.value is None or names.filled_in.keys() & kinds or not one.may_look_up():
        return UNKNOWN
    there = one.there(stored.path, stored.scopes)
    value = there.value(stored.value) if there.kinds(stored.owner) == kinds else UNKNOWN
    one.lookups = there.lookups
    return value


def only_reached_value(one: TestEvaluation, scope: Scope, name: str, stores: int) -> ast.expr | None:
    """The one value that this launch gives ``name``, of ``stores`` in the scope; None where that is not known."""
    values = [(value, around) for target, value, around in _assigned(scope.body, ()) if target == name]
    if len(values) != stores:
        return None
    left = [value for value, around in values if not any(_excludes(one, *test) for test in around)]
    return left[0] if len(left) == 1 else None


def _excludes(one: TestEvaluation, node: ast.If, part: str) -> bool:
    truth = one.truth(node.test)
    return truth is not None and truth is not (part == "body")


def _assigned(block: Sequence[ast.stmt], around: _Around) -> Iterator[tuple[str, ast.expr, _Around]]:
    """Plain ``name = value``, with the tests above it."""
    for statement in block:
        if isinstance(statement, ast.Assign):
            yield from ((one.id, statement.value, around) for one in statement.targets if isinstance(one, ast.Name))
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for owner, part, inner in blocks(statement):
            here = (*around, (owner, part)) if isinstance(owner, ast.If) else around
            yield from _assigned(inner, here)


@lru_cache(maxsize=1024)
def _globals(module: ast.Module) -> frozenset[str]:
    return frozenset(name for node in walk(module) if isinstance(node, ast.Global) for name in node.names)


def without_untaken_branches(
    files: Iterable[SourceFile], settings: ProgramSettings
) -> tuple[tuple[SourceFile, ...], tuple[UntakenBranch, ...]]:
    """The files as this launch runs them, and the branches that it never takes."""
    live: list[SourceFile] = []
    left: list[UntakenBranch] = []
    for file in files:
        program = parse_file(file.text)
        if isinstance(program, str):
            live.append(file)
            continue
        used: dict[int, tuple[EffectiveValue, ...]] = {}

        def decide(test: ast.expr, scopes: Sequence[Scope]) -> bool | None:
            one = TestEvaluation(settings, file.path, scopes)  # noqa: B023 - called before the next file
            truth = one.truth(test)
            if truth is not None and not one.used:
                return None  # a constant of the source: its author's to change, not this launch's
            used[test.lineno] = tuple(one.used)  # noqa: B023
            return truth

        text, untaken = without_untaken(file.text, decide)
        live.append(file if text is file.text else SourceFile(file.source, file.path, text))
        for one in untaken:
            told = dict.fromkeys((held.name, repr(held.value), held.place) for held in used.get(one.line, ()))
            left.append(UntakenBranch(file.path, one.line, one.test, one.truth, (one.first, one.last), tuple(told)))
    return tuple(live), tuple(left)


def modules_named_by_settings(files: Iterable[SourceFile], settings: ProgramSettings) -> tuple[str, ...]:
    """Names of modules that settings hold: ``import_module(args.plugin)``."""
    found: dict[str, None] = {}
    for file, program in parsed_files(file for file in files if "import_module" in file.text):
        for scope, outer in program.owners.items():
            one = TestEvaluation(settings, file.path, (*outer, scope))
            for node in own_nodes(scope):
                if isinstance(node, ast.Call) and call_name(node) == "import_module" and node.args:
                    name = one.value(node.args[0])
                    if isinstance(name, str) and name and one.used:
                        found[name] = None
    return tuple(found)


def _span(each: Sequence[Any], named: Mapping[str | None, Any]) -> Any:
    amounts = (*each, *named.values())
    if not all(isinstance(one, int | float) for one in amounts) or None in named:
        return UNKNOWN
    try:
        return timedelta(*each, **{str(name): amount for name, amount in named.items()})
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN


@lru_cache(maxsize=4096)
def _stores(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> Counter[str]:
    """How often the function gives each of its names a value; a parameter has one already."""
    stored = Counter(node.id for node in walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return stored + Counter(node.arg for node in walk(scope.args) if isinstance(node, ast.arg))


def configuration_path(names: ConfigNames, scopes: Sequence[Scope], node: ast.expr, deep: int = _DEEP) -> str | None:
    """``a.b`` of ``cfg.a.b``; empty for the tree itself, None for what does not stand in it."""
    if deep <= 0:
        return None
    if isinstance(node, ast.Name):
        return _of_name(names, scopes, node.id, deep)
    key: str | None = None
    owner: ast.expr | None = None
    if isinstance(node, ast.Attribute):
        key, owner = node.attr, node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key, owner = str(node.slice.value), node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        first = node.args[0]
        key, owner = (str(first.value) if isinstance(first, ast.Constant) else None), node.func.value
    above = configuration_path(names, scopes, owner, deep - 1) if key is not None and owner is not None else None
    return None if above is None else f"{above}.{key}".lstrip(".")


def _of_name(names: ConfigNames, scopes: Sequence[Scope], name: str, deep: int) -> str | None:
    for at in range(len(scopes) - 1, -1, -1):
        scope = scopes[at]
        values = names.assigned(scope).get(name, ())
        if len(values) == 1 and values[0] is not None:
            made = values[0]
            if isinstance(made, ast.Call) and dotted(made.func) in _MAKES_TREE:
                return ""
            return None if _is(made, name) else configuration_path(names, scopes, made, deep - 1)
        if values:
            return None
        if not isinstance(scope, ast.Module) and name in parameters_of(scope):
            return "" if _is_main(scope) else _handed_down(names, scope, name, deep)
    return None


def _handed_down(names: ConfigNames, scope: Scope, name: str, deep: int) -> str | None:
    given = names.given(scope, name) or ()
    found = {configuration_path(names, scopes, value, deep - 1) for value, _, scopes in given}
    return found.pop() if len(found) == 1 else None


def _is_main(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    called = (one for one in scope.decorator_list if isinstance(one, ast.Call))
    return any(dotted(one.func).endswith(_MAIN) or call_name(one) in _MAIN for one in called)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
