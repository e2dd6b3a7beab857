"""Whether the source lets a value differ between ranks: literals, settings and step counters are the same on all, and
so is what a collective went into.

After ``steps = int(all_reduce(counts, MIN))``, ``for step in range(steps)`` cannot differ by the data alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.knowledge.collectives import source_names
from unhang.program.syntax.syntax_tree import (
    Function,
    Loop,
    ParsedFile,
    Scope,
    blocks,
    call_name,
    names_in,
    own_nodes,
    parameters_of,
    parse_file,
)

_SETTINGS = re.compile(r"^(?:args?|cfg|conf|config|configs|opts?|options|hparams|hp|flags|FLAGS|params|settings)$")
_NUMBERS = re.compile(r"^(?:[A-Z][A-Z0-9_]*|world_size|n?gpus)$")
_LIMITS = re.compile(r"(?:^|_)(?:max|num|total|every|interval|freq|steps?|epochs?|iters?|accum\w*|world_size)(?:_|$)")
_COUNTERS = {"global_step", "current_epoch", "max_steps"}
"""Of a trainer or its state."""
_RANGES = {"range", "trange"}
_AROUND = {"tqdm", "track", "list", "reversed"}
_ARITHMETIC = {"int", "min", "max", "round", "abs", "get_world_size", "range", "divmod"}
_MODULES = {"math", "np", "numpy", "torch"}
MAX_NAMES = 50
_GIVE_NOTHING_BACK = {"barrier", "monitored_barrier", "send", "isend", "wait_for_everyone"}


def has_equal_rounds(loop: Loop, scopes: Sequence[Scope]) -> bool:
    """The loop is a range over numbers that are the same on all ranks."""
    if not isinstance(loop, ast.For):
        return False
    over = gone_through(loop)
    if not isinstance(over, ast.Call) or call_name(over) not in _RANGES or not over.args:
        return False
    return _Asked(scopes).all_same(over.args)


def gone_through(loop: ast.For | ast.AsyncFor) -> ast.expr:
    """What the loop goes through, without progress bars around it."""
    over = loop.iter
    while isinstance(over, ast.Call) and call_name(over) in _AROUND and over.args:
        over = over.args[0]
    return over


def may_differ_by_rank(program: ParsedFile, test: ast.expr, scopes: Sequence[Scope], line: int) -> bool:
    """The test at ``line`` may come out otherwise on one rank than on the others."""
    if agreed_value(program, scopes[-1], test, before=line) is not None:
        return False
    return not _Asked(scopes).all_same([test])


class _Asked:
    """One question; names are followed once each."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self._scopes = scopes
        self._seen: set[str] = set()

    def all_same(self, values: Sequence[ast.expr]) -> bool:
        return all(self._same(value) for value in values)

    def _same(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Constant):
            return True
        if isinstance(value, ast.Attribute):
            return _is_setting(value) or value.attr in _COUNTERS
        if isinstance(value, ast.Name):
            return self._name(value.id)
        if isinstance(value, ast.Call):
            alone = isinstance(value.func, ast.Name) or call_name(value) == "get_world_size"
            known = call_name(value) in _ARITHMETIC and not value.keywords and (alone or _is_module(value.func))
            return known and self.all_same(value.args)
        if isinstance(value, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Tuple | ast.List):
            return all(self._same(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))
        return False

    def _name(self, name: str) -> bool:
        if _NUMBERS.match(name) or name == "__name__":
            return True
        if name in self._seen or len(self._seen) >= MAX_NAMES:
            return True  # a counter that is made of itself: its other values decide
        self._seen.add(name)
        for scope in reversed(self._scopes):
            values = list(_values(scope).get(name, ()))
            if values:
                return all(value is not None and self._same(value) for value in values)
            if name in parameters_of(scope):
                return bool(_LIMITS.search(name))
        return False


def _is_module(func: ast.expr) -> bool:
    """``math.floor``, and not ``batch.max``."""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in _MODULES


def _is_setting(value: ast.Attribute) -> bool:
    """``args.steps``, ``self.cfg.train.max_steps``."""
    node: ast.expr = value.value
    while isinstance(node, ast.Attribute):
        if _SETTINGS.match(node.attr):
            return True
        node = node.value
    return isinstance(node, ast.Name) and bool(_SETTINGS.match(node.id))


@lru_cache(maxsize=20_000)
def _values(scope: Scope) -> dict[str, list[ast.expr | None]]:
    """What each name of the scope is given; None for what cannot be followed, or is counted only at times."""
    found: dict[str, list[ast.expr | None]] = {}
    for name, value in _given(scope):
        found.setdefault(name, []).append(value)
    return found


def _given(scope: Scope) -> Iterator[tuple[str, ast.expr | None]]:
    at_times = {id(node) for node in _in_branches(scope)}
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for name in names_in(target):
                    plain = isinstance(target, ast.Name) and id(node) not in at_times
                    yield name, node.value if plain else None
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield from _targets(node)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    yield from ((name, None) for name in names_in(item.optional_vars))


def _targets(loop: ast.For | ast.AsyncFor) -> Iterator[tuple[str, ast.expr | None]]:
    """The number of a round is the same on all ranks in the same round; what the round is about is not."""
    over = gone_through(loop)
    name = call_name(over) if isinstance(over, ast.Call) else ""
    counted = loop.target if name in _RANGES else None
    if name == "enumerate" and isinstance(loop.target, ast.Tuple) and loop.target.elts:
        counted = loop.target.elts[0]
    for target in names_in(loop.target):
        number = isinstance(counted, ast.Name) and counted.id == target
        yield target, ast.Constant(0) if number else None


def _in_branches(scope: Scope) -> Iterator[ast.AST]:
    """Statements below an ``if`` or in a handler: one rank may count where another does not."""
    waiting: list[tuple[ast.AST, bool]] = [(scope, False)]
    while waiting:
        node, branched = waiting.pop()
        for owner, _, block in blocks(node):
            inner = branched or isinstance(owner, ast.If | ast.ExceptHandler | ast.match_case)
            for statement in block:
                if inner:
                    yield statement
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    waiting.append((statement, inner))


def agreeing_call(source: SourceFile | None, loop_line: int | None) -> int | None:
    """Line of the collective whose result decides how often the loop at ``loop_line`` runs; None where none does."""
    program = parse_file(source.text) if source is not None else ""
    if isinstance(program, str) or loop_line is None:
        return None
    place = program.place(loop_line)
    loop = place.statement if place is not None else None
    if place is None or not isinstance(loop, ast.For | ast.While) or loop.lineno != loop_line:
        return None
    decides = loop.iter if isinstance(loop, ast.For) else loop.test
    return agreed_value(program, place.function, decides, before=loop_line)


def accumulating_call(source: SourceFile | None, loop_line: int | None) -> int | None:
    """Line of the call by which the loop at ``loop_line`` reduces gradients in some of its rounds only; None where none
    does."""
    program = parse_file(source.text) if source is not None else ""
    place = program.place(loop_line) if not isinstance(program, str) and loop_line is not None else None
    loop = place.statement if place is not None else None
    if not isinstance(loop, ast.For | ast.While):
        return None
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return next((call.lineno for call in calls if call_name(call) in source_names("reduces_later")), None)


def agreed_value(program: ParsedFile, scope: Scope, decides: ast.expr, *, before: int) -> int | None:
    """Line of the collective above line ``before`` whose result goes into ``decides``; None where none does."""
    waiting, seen = [decides], set[str]()
    while waiting and len(seen) < MAX_NAMES:
        node = waiting.pop()
        for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
            if (line := _collective_in(program, call_name(call))) is not None:
                return line
        for name in names_in(node) - seen:
            seen.add(name)
            for call in _calls_with(scope, name, before):
                return call.lineno
            waiting.extend(_values_of(scope, name, before))
    return None


def _collective_in(program: ParsedFile, function: str) -> int | None:
    """The collective in the only function of that name, whose result it may give back."""
    named = [f for f in program.owners if isinstance(f, Function) and f.name == function]
    if len(named) != 1 or not any(isinstance(n, ast.Return) and n.value is not None for n in own_nodes(named[0])):
        return None
    calls = (n for n in own_nodes(named[0]) if isinstance(n, ast.Call) and _agrees(n))
    return min((call.lineno for call in calls), default=None)


def _agrees(call: ast.Call) -> bool:
    """After it the ranks that took part know the same."""
    return call_name(call) in source_names("step_collective") - _GIVE_NOTHING_BACK


def _calls_with(scope: Scope, name: str, before: int) -> Iterator[ast.Call]:
    """Collectives that take ``name`` as an argument."""
    calls = (n for n in own_nodes(scope) if isinstance(n, ast.Call) and _agrees(n))
    for call in calls:
        if call.lineno < before and any(isinstance(arg, ast.Name) and arg.id == name for arg in call.args):
            yield call


def _values_of(scope: Scope, name: str, before: int) -> Iterator[ast.expr]:
    settings = (n for n in own_nodes(scope) if isinstance(n, ast.Assign) and n.lineno < before)
    for setting in settings:
        if any(isinstance(n, ast.Name) and n.id == name for t in setting.targets for n in ast.walk(t)):
            yield setting.value
