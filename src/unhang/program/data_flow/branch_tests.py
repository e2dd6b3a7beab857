"""What a test asks, and what it says in a job of several ranks: of the rank, of their number, of anything else."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TypeAlias

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.function_steps import (
    BATCH,
    DATA,
    FILES,
    LOCAL,
    MEMBER,
    NAMED,
    PARTLY,
    RANK,
    BranchTest,
    TestTerm,
)
from unhang.program.data_flow.models import is_optional_input
from unhang.program.data_flow.rank_names import rank_zero_key
from unhang.program.data_flow.value_origins import GROUP_RANK, LOOP, NO_ORIGINS, RANK_ORIGINS, ValueOrigin
from unhang.program.syntax.syntax_tree import call_name, expression_text, names_in, walk

_FLIPPED = {ast.NotEq: "==", ast.NotIn: "in", ast.IsNot: "is"}
_SAME = {ast.Eq: "==", ast.In: "in", ast.Is: "is"}
ValueOf: TypeAlias = Callable[[ast.expr], ValueOrigin]


def branch_test(node: ast.expr, of: ValueOf) -> BranchTest:
    """``node`` as a test, with what is known of each part; ``of`` tells why a value may differ."""
    if isinstance(node, ast.BoolOp):
        how = "and" if isinstance(node.op, ast.And) else "or"
        return BranchTest(how, tuple(branch_test(one, of) for one in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return BranchTest("not", (branch_test(node.operand, of),))
    return BranchTest("leaf", (), _leaf(node, of))


def _leaf(node: ast.expr, of: ValueOf) -> TestTerm:
    text = expression_text(node)
    if isinstance(node, ast.Constant):
        return TestTerm(text, True, text, known=bool(node.value))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, text, of)
    if isinstance(node, ast.Compare):
        kinds = frozenset(kind for one in (node.left, *node.comparators) for kind in of(one).kinds)
        return TestTerm(text, True, text, kinds, setting=_setting_of(node))
    value = of(node)
    if PARTLY in value.kinds:
        return TestTerm(text, True, text, frozenset({GROUP_RANK}))
    if name_asked(node).strip("_") in source_names("distributed_question") and "cuda" not in text and not value.kinds:
        return TestTerm(text, True, text, known=True)
    path = expression_text(_path_of(node)) if FILES in value.kinds and isinstance(node, ast.Call) else ""
    if value.key is not None:
        return TestTerm(value.key[0], value.key[1], text, value.kinds)
    if value.kinds & {RANK, NAMED, LOCAL} and not value.only and isinstance(node, ast.Name | ast.Attribute):
        key = rank_zero_key(value.kinds)  # ``if rank:`` is true on every rank but the first
        return TestTerm(key or text, key == "", text, value.kinds)
    return TestTerm(text, True, text, value.kinds, setting=_setting_of(node), path=path)


def _compared(node: ast.Compare, text: str, of: ValueOf) -> TestTerm:
    operator, left, right = node.ops[0], node.left, node.comparators[0]
    is_none = isinstance(right, ast.Constant) and right.value is None
    if name_asked(left).strip("_") in source_names("engine") and is_none:
        return TestTerm(text, True, text, known=isinstance(operator, ast.IsNot | ast.NotEq))
    one, other = of(left), of(right)
    kinds = one.kinds | other.kinds
    number = integer_literal(right)
    if name_asked(left) in source_names("world_size") and number is not None and not kinds & {DATA}:
        return TestTerm(text, True, text, known=_world_size_test_result(operator, number))
    if isinstance(operator, ast.In | ast.NotIn) and isinstance(left, ast.Constant):
        partly = frozenset({GROUP_RANK}) if PARTLY in other.kinds else NO_ORIGINS
        return TestTerm(text, True, text, other.kinds - {DATA, PARTLY} | partly, setting="given")
    if kinds & {RANK, NAMED, LOCAL, GROUP_RANK} and not (one.only or other.only):
        known = _rank_test_result(operator, right, number)
        if known is not None:
            return TestTerm(text, True, text, known=known)
        zero = _selects_rank_zero(operator, right, number)
        key = rank_zero_key(kinds) if zero is not None else ""
        if key and zero is not None:
            return TestTerm(key, zero, text, kinds)
    elif isinstance(operator, ast.Is | ast.IsNot) and not (one.only or other.only):
        kinds = _of_presence(left, one, kinds)
    if isinstance(operator, ast.In | ast.NotIn) and not isinstance(right, ast.List | ast.Tuple | ast.Set):
        member = bool(kinds & (RANK_ORIGINS | {GROUP_RANK}))  # of a group, or of what it was put into itself
        kinds = (kinds - RANK_ORIGINS - {GROUP_RANK}) | ({MEMBER} if member else NO_ORIGINS)
    flipped = _FLIPPED.get(type(operator))
    if flipped is not None or type(operator) in _SAME:
        same = f"{expression_text(left)} {flipped or _SAME[type(operator)]} {expression_text(right)}"
        return TestTerm(same, flipped is None, text, kinds, setting=_setting_of(node))
    return TestTerm(text, True, text, kinds, setting=_setting_of(node))


def _of_presence(node: ast.expr, value: ValueOrigin, kinds: frozenset[str]) -> frozenset[str]:
    """Why ranks may differ in ``node is None``: a batch of this rank's own, or a parameter it did not use."""
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return frozenset({DATA})
    if value.made != LOOP:
        return NO_ORIGINS
    return kinds & ({DATA, BATCH} if is_optional_input(name_asked(node)) else {DATA})


def name_asked(node: ast.expr) -> str:
    """The name that tells what ``node`` asks for."""
    if isinstance(node, ast.Call):
        return call_name(node) if call_name(node) != "int" or not node.args else name_asked(node.args[0])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _path_of(call: ast.Call) -> ast.expr:
    if call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _setting_of(node: ast.expr) -> str:
    """Nothing is called or counted in the test: a setting may decide it once for all."""
    asking = source_names("structure_question") | {"getattr", "get", "len", "bool"}
    if not all(call_name(inner) in asking for inner in walk(node) if isinstance(inner, ast.Call)):
        return ""
    asked = isinstance(node, ast.Call) and call_name(node) == "hasattr"
    return "own" if asked or names_in(node) == {"self"} else "given"


def _rank_test_result(operator: ast.cmpop, right: ast.expr, number: int | None) -> bool | None:
    """What a test of the rank says on every rank of a job: ``rank == "cpu"``, ``rank == -1``, ``rank is None``."""
    nothing = (
        number is None and isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, str))
    )
    if nothing or number == -1:
        same = isinstance(operator, ast.Eq | ast.Is)
        if same or isinstance(operator, ast.NotEq | ast.IsNot):
            return not same
        return isinstance(operator, ast.Gt | ast.GtE) if number == -1 else None
    if number == 0 and isinstance(operator, ast.GtE | ast.Lt):
        return isinstance(operator, ast.GtE)
    return None


def _selects_rank_zero(operator: ast.cmpop, right: ast.expr, number: int | None) -> bool | None:
    """Whether ``rank OPERATOR right`` holds on rank 0 only (True), on all others (False), or neither (None)."""
    if isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple | ast.Set):
        numbers = {integer_literal(one) for one in right.elts}
        return isinstance(operator, ast.In) if numbers <= {0, -1} and 0 in numbers else None
    if number == 0 and isinstance(operator, ast.Eq | ast.LtE | ast.NotEq | ast.Gt):
        return isinstance(operator, ast.Eq | ast.LtE)
    if number == 1 and isinstance(operator, ast.Lt | ast.GtE):
        return isinstance(operator, ast.Lt)
    return None


def _world_size_test_result(operator: ast.cmpop, number: int) -> bool | None:
    """What a test of the number of ranks says where there are several."""
    if number > 1 and not (number == 2 and isinstance(operator, ast.GtE | ast.Lt)):
        return None
    truths: Mapping[type[ast.cmpop], bool] = {ast.Gt: True, ast.GtE: True, ast.NotEq: True}
    return truths.get(type(operator), False)


def integer_literal(node: ast.expr) -> int | None:
    """The whole number that is written there, also as a text: variables of the environment hold texts."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
