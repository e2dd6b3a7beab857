"""Which names and expressions of a program depend on the rank: a small data flow over its source.

Two degrees: :data:`SURE` (comes from ``get_rank()``, ``os.environ["RANK"]``, ``accelerator.is_main_process``, …) and
:data:`BY_NAME` (a value of unknown origin that is called ``rank``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from unhang.program.rank_dependence.rank_vocabulary import (
    LIKELY_NAMES,
    PASSES_ON,
    RANK_CALLS,
    RANK_DECORATORS,
    RANK_ENVIRONMENT,
    SURE_NAMES,
)
from unhang.program.syntax.syntax_tree import Function, ParsedFile, Scope, call_name, own_nodes

BY_NAME, SURE = 1, 2

_SPAWNERS = {"spawn", "start_processes"}
_ROUNDS = 4


class RankValues:
    """Answers whether an expression of one program depends on the rank.

    ``returns``, ``attributes``: what other files of the program define so (``is_master()``, ``args.save_logs``).
    """

    def __init__(
        self,
        program: ParsedFile,
        returns: Mapping[str, int] = MappingProxyType({}),
        attributes: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._program = program
        self._elsewhere = attributes
        self._scopes = list(program.owners)
        self._derived: dict[Scope, dict[str, int]] = {scope: {} for scope in self._scopes}
        self._assigned: dict[Scope, frozenset[str]] = {scope: _assigned_names(scope) for scope in self._scopes}
        self._parameters = {scope: _parameters(scope) for scope in self._scopes}
        self._attributes: dict[str, int] = {}
        self._plain_attributes: set[str] = set()
        self._functions: dict[str, list[Function]] = {}
        self._returns: dict[str, int] = dict(returns)
        for scope in self._scopes:
            if not isinstance(scope, ast.Module):
                self._functions.setdefault(scope.name, []).append(scope)
        for _ in range(_ROUNDS):
            if not self._round():
                break

    # -- questions

    @property
    def returns(self) -> Mapping[str, int]:
        """Functions that answer another thing on every rank."""
        return self._returns

    @property
    def attributes(self) -> Mapping[str, int]:
        """Attributes that never get anything but a value that depends on the rank."""
        return {name: how for name, how in self._attributes.items() if name not in self._plain_attributes}

    def test_depends(self, test: ast.AST, scopes: Sequence[Scope]) -> int:
        """0, BY_NAME or SURE: whether two ranks can take different ways at ``test``.

        ``local_rank != -1`` and ``rank is not None`` ask whether the job is distributed at all: no.
        """
        best = 0
        waiting = [test]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Lambda) or (isinstance(node, ast.Compare) and _asks_for_presence(node)):
                continue
            best = max(best, self._leaf(node, scopes))
            if best == SURE:
                return SURE
            waiting.extend(ast.iter_child_nodes(node))
        return best

    def value_depends(self, value: ast.AST, scopes: Sequence[Scope]) -> int:
        """0, BY_NAME or SURE: whether ``value`` differs from rank to rank in a way a test or a loop can see."""
        best = 0
        waiting = [value]
        while waiting:
            node = waiting.pop()
            best = max(best, self._leaf(node, scopes))
            if best == SURE:
                return SURE
            waiting.extend(_passed_on(node))
        return best

    # -- building

    def _round(self) -> bool:
        before = (sum(map(len, self._derived.values())), len(self._attributes), len(self._returns))
        for scope in self._scopes:
            around = self._around(scope)
            for node in _that_teach(scope):
                self._learn(node, scope, around)
        return before != (sum(map(len, self._derived.values())), len(self._attributes), len(self._returns))

    def _around(self, scope: Scope) -> tuple[Scope, ...]:
        return (*self._program.owners[scope], scope)

    def _learn(self, node: ast.AST, scope: Scope, around: Sequence[Scope]) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value, scope, around)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            self._bind(node.target, node.value, scope, around)
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(scope, ast.Module):
            if degree := self.value_depends(node.value, around):
                self._returns[scope.name] = max(degree, self._returns.get(scope.name, 0))
        elif isinstance(node, ast.Call):
            self._pass_arguments(node, around)

    def _bind(self, target: ast.AST, value: ast.AST, scope: Scope, around: Sequence[Scope]) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for part, its_value in zip(target.elts, value.elts, strict=True):
                    self._bind(part, its_value, scope, around)
            elif isinstance(value, ast.Call):
                for part in target.elts:
                    self._bind(part, value, scope, around)
            return
        degree = self.value_depends(value, around)
        if not degree and isinstance(value, ast.Call) and not _names_a_matrix_rank(value):
            degree = _degree_of_name(_last_name(target))
        if isinstance(target, ast.Name) and degree:
            known = self._derived[scope]
            known[target.id] = max(degree, known.get(target.id, 0))
        elif isinstance(target, ast.Attribute):
            if degree:
                self._attributes[target.attr] = max(degree, self._attributes.get(target.attr, 0))
            else:
                self._plain_attributes.add(target.attr)

    def _pass_arguments(self, call: ast.Call, around: Sequence[Scope]) -> None:
        if call_name(call) in _SPAWNERS and call.args and isinstance(call.args[0], ast.Name):
            for function in self._functions.get(call.args[0].id, ()):
                if function.args.args:
                    self._derived[function][function.args.args[0].arg] = SURE
        for function in self._functions.get(call_name(call), ()):
            names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            if names[:1] == ["self"] or names[:1] == ["cls"]:
                names = names[1:]
            pairs: list[tuple[str, ast.AST]] = list(zip(names, call.args, strict=False))
            pairs += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
            known = self._derived[function]
            for name, value in pairs:
                if name in self._parameters[function] and (degree := self.value_depends(value, around)):
                    known[name] = max(degree, known.get(name, 0))

    # -- one node

    def _leaf(self, node: ast.AST, scopes: Sequence[Scope]) -> int:
        if isinstance(node, ast.Name):
            return self._name(node.id, scopes)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            name = call_name(node)
            if name in RANK_CALLS or asks_environment(node):
                return SURE
            return self._returns.get(name, 0)
        if isinstance(node, ast.Subscript):
            return SURE if is_environ(node.value) and _constant(node.slice) in RANK_ENVIRONMENT else 0
        return 0

    def _name(self, name: str, scopes: Sequence[Scope]) -> int:
        for scope in reversed(scopes):
            if name in self._derived[scope]:
                return self._derived[scope][name]
            if name in self._parameters[scope]:
                return _degree_of_name(name)
            if name in self._assigned[scope]:
                return 0
        return _degree_of_name(name)

    def _attribute(self, node: ast.Attribute) -> int:
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if own and node.attr in self._attributes:
            return self._attributes[node.attr]
        if own and node.attr in self._plain_attributes:
            return 0
        return self._elsewhere.get(node.attr, 0) or _degree_of_name(node.attr)


def _degree_of_name(name: str) -> int:
    return SURE if name in SURE_NAMES else BY_NAME if name in LIKELY_NAMES else 0


def _last_name(target: ast.AST) -> str:
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _names_a_matrix_rank(call: ast.Call) -> bool:
    """``matrix_rank(x)``, ``int(opt.lora_rank)``: the other thing that is called rank."""
    name = call_name(call)
    return ("rank" in name and name not in RANK_CALLS) or name in (
        "int",
        "len",
        "min",
        "max",
        "float",
        "round",
        "range",
    )


def _passed_on(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of ``node`` whose dependence ``node`` takes over."""
    if isinstance(node, ast.Call):
        if call_name(node) in PASSES_ON:
            yield from node.args
            yield from (keyword.value for keyword in node.keywords)
            if isinstance(node.func, ast.Attribute):
                yield node.func.value
    elif isinstance(node, ast.Compare):
        if not _asks_for_presence(node):
            yield node.left
            yield from node.comparators
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Subscript | ast.Slice):
        yield from (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    elif isinstance(node, ast.Starred | ast.Await):
        yield node.value


def _asks_for_presence(node: ast.Compare) -> bool:
    """``x is not None``, ``x != -1``, ``x >= 0``, ``"RANK" in os.environ``: true on every rank of a distributed job."""
    if len(node.ops) != 1:
        return False
    operator, left, right = node.ops[0], node.left, node.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot):
        return True
    if isinstance(operator, ast.In | ast.NotIn):
        return is_environ(right)
    value = _constant(right)
    if value is None:
        value, operator = _constant(left), _FLIPPED.get(type(operator), ast.Eq)()
    if isinstance(operator, ast.Eq | ast.NotEq):
        return value == -1
    if isinstance(operator, ast.GtE | ast.Lt):
        return value == 0
    return isinstance(operator, ast.Gt | ast.LtE) and value == -1


_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


def _constant(node: ast.AST) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int | float) else None
    return None


def asks_environment(call: ast.Call) -> bool:
    """``os.environ.get("RANK")`` and its kin."""
    if not call.args or _constant(call.args[0]) not in RANK_ENVIRONMENT:
        return False
    if call_name(call) == "getenv":
        return True
    return call_name(call) in ("get", "pop") and isinstance(call.func, ast.Attribute) and is_environ(call.func.value)


def is_environ(node: ast.AST) -> bool:
    """``os.environ``."""
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id in ("environ", "env")
    )


@lru_cache(maxsize=20_000)
def _parameters(scope: ast.AST) -> frozenset[str]:
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset()
    arguments = scope.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return frozenset(argument.arg for argument in every)


@lru_cache(maxsize=20_000)
def _assigned_names(scope: ast.AST) -> frozenset[str]:
    shared: set[str] = set()
    names: set[str] = set()
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared.update(node.names)
    return frozenset(names - shared)


@lru_cache(maxsize=20_000)
def _that_teach(scope: ast.AST) -> tuple[ast.AST, ...]:
    """What may give a name, an attribute, a parameter or an answer its value."""
    kinds = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.Return | ast.Call
    return tuple(node for node in own_nodes(scope) if isinstance(node, kinds))


def rank_decorator(function: ast.AST) -> ast.expr | None:
    """The decorator that lets only some ranks run ``function``, or None."""
    decorators: Iterable[ast.expr] = getattr(function, "decorator_list", ())
    for decorator in decorators:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if _last_name(target) in RANK_DECORATORS:
            return decorator
    return None


@lru_cache(maxsize=1024)
def rank_values(program: ParsedFile) -> RankValues:
    """The data flow of ``program``, computed once."""
    return RankValues(program)
