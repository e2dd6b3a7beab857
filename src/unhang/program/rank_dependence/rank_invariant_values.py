"""Whether the source lets a value differ between ranks: literals, settings and step counters are the same on all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from unhang.program.rank_dependence.agreed_rounds import agreed_value
from unhang.program.syntax.syntax_tree import Loop, ParsedFile, Scope, blocks, call_name, own_nodes

_SETTINGS = re.compile(r"^(?:args?|cfg|conf|config|configs|opts?|options|hparams|hp|flags|FLAGS|params|settings)$")
_NUMBERS = re.compile(r"^(?:[A-Z][A-Z0-9_]*|world_size|n?gpus)$")
_LIMITS = re.compile(r"(?:^|_)(?:max|num|total|every|interval|freq|steps?|epochs?|iters?|accum\w*|world_size)(?:_|$)")
_RANGES = {"range", "trange"}
_AROUND = {"tqdm", "track", "list", "reversed"}
_ARITHMETIC = {"int", "min", "max", "round", "abs", "get_world_size", "range", "divmod"}
MAX_NAMES = 50


def has_equal_rounds(program: ParsedFile, loop: Loop, scopes: Sequence[Scope]) -> bool:
    """The loop is a range over numbers that are the same on all ranks."""
    if not isinstance(loop, ast.For):
        return False
    over: ast.expr = loop.iter
    while isinstance(over, ast.Call) and call_name(over) in _AROUND and over.args:
        over = over.args[0]
    if not isinstance(over, ast.Call) or call_name(over) not in _RANGES or not over.args:
        return False
    return _Asked(program, scopes, loop.lineno).all_same(over.args)


def may_differ_by_rank(program: ParsedFile, test: ast.expr, scopes: Sequence[Scope], line: int) -> bool:
    """The test at ``line`` may come out otherwise on one rank than on the others."""
    if agreed_value(program, scopes[-1], test, before=line) is not None:
        return False
    return not _Asked(program, scopes, line).all_same([test])


class _Asked:
    """One question; names are followed once each."""

    def __init__(self, program: ParsedFile, scopes: Sequence[Scope], line: int) -> None:
        self._program, self._scopes, self._line = program, scopes, line
        self._seen: set[str] = set()

    def all_same(self, values: Sequence[ast.expr]) -> bool:
        return all(self._same(value) for value in values)

    def _same(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Constant):
            return True
        if isinstance(value, ast.Attribute):
            return _is_setting(value)
        if isinstance(value, ast.Name):
            return self._name(value.id)
        if isinstance(value, ast.Call):
            known = call_name(value) in _ARITHMETIC and not value.keywords
            return known and self.all_same(value.args)
        if isinstance(value, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Tuple | ast.List):
            return all(self._same(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))
        return False

    def _name(self, name: str) -> bool:
        if _NUMBERS.match(name):
            return True
        if name in self._seen or len(self._seen) >= MAX_NAMES:
            return True  # a counter that is made of itself: its other values decide
        self._seen.add(name)
        for scope in reversed(self._scopes):
            values = list(_values(scope).get(name, ()))
            if values:
                return all(value is not None and self._same(value) for value in values)
            if name in _parameters(scope):
                return bool(_LIMITS.search(name))
        return False


def _is_setting(value: ast.Attribute) -> bool:
    """``args.steps``, ``self.cfg.train.max_steps``."""
    node: ast.expr = value.value
    while isinstance(node, ast.Attribute):
        if _SETTINGS.match(node.attr):
            return True
        node = node.value
    return isinstance(node, ast.Name) and bool(_SETTINGS.match(node.id))


def _parameters(scope: Scope) -> set[str]:
    if isinstance(scope, ast.Module):
        return set()
    arguments = scope.args
    return {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


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
                for name in _names(target):
                    plain = isinstance(target, ast.Name) and id(node) not in at_times
                    yield name, node.value if plain else None
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield from _targets(node)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    yield from ((name, None) for name in _names(item.optional_vars))


def _targets(loop: ast.For | ast.AsyncFor) -> Iterator[tuple[str, ast.expr | None]]:
    """The number of a round is the same on all ranks in the same round; what the round is about is not."""
    over = loop.iter
    while isinstance(over, ast.Call) and call_name(over) in _AROUND and over.args:
        over = over.args[0]
    name = call_name(over) if isinstance(over, ast.Call) else ""
    counted = loop.target if name in _RANGES else None
    if name == "enumerate" and isinstance(loop.target, ast.Tuple) and loop.target.elts:
        counted = loop.target.elts[0]
    for target in _names(loop.target):
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


def _names(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id
