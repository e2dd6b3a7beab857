"""What the program's source tells of a call: the name of its group, the partner of a send or receive."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.model import Activity
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.findings import Where
from unhang.program.rank_dependence.value_for_rank import number_value
from unhang.program.syntax.syntax_tree import Function, LinePosition, call_name, find_line, own_nodes

MAX_FRAMES = 8
_GroupName = tuple[str, str, str]
"""File, function, and the name in it."""


def groups_by_name(waiting: Mapping[int, Activity], sources: Mapping[str, SourceFile]) -> dict[int, str]:
    """``{rank: name}`` where the ranks wait in groups to which one function gives different names; else empty.

    Names of different functions are not compared: two of them may be the same group.
    """
    found: dict[int, _GroupName] = {}
    for rank, activity in waiting.items():
        named = _group_name(activity, sources)
        if named is None:
            return {}
        found[rank] = named
    one_place = len({(file, function) for file, function, _ in found.values()}) == 1
    if not one_place or len(set(found.values())) < 2:
        return {}
    return {rank: name for rank, (_, _, name) in found.items()}


def _group_name(activity: Activity, sources: Mapping[str, SourceFile]) -> _GroupName | None:
    frames = [f for f in activity.frames if not f.native and f.line is not None and is_user_frame(f, sources)]
    wanted, parameter, position = activity.operation or "", "group", None
    for frame, place in _places(frames[:MAX_FRAMES], sources):
        call = _call_on(place, frame.line or 0, wanted)
        argument = _argument(call, parameter, position) if call is not None else None
        if not isinstance(argument, ast.Name | ast.Attribute):
            return None
        function = place.function
        inner = argument.id if isinstance(argument, ast.Name) else ""
        if isinstance(function, Function) and inner in _parameters(function):
            if _is_set_in(function, inner):
                return None
            wanted, parameter, position = function.name, inner, _position(function, inner)
            continue
        if inner and _is_loop_name(function, inner):
            return None  # one name for every group in turn
        return frame.file, frame.function, ast.unparse(argument)
    return None


def _places(frames: Sequence[Frame], sources: Mapping[str, SourceFile]) -> Iterator[tuple[Frame, LinePosition]]:
    for frame in frames:
        place = find_line(sources, frame.file, frame.line)
        if place is None:
            return
        yield frame, place


def _call_on(place: LinePosition, line: int, name: str) -> ast.Call | None:
    calls = [call for call in place.calls(line) if call_name(call) == name]
    return calls[0] if len(calls) == 1 else None


def _argument(call: ast.Call, parameter: str, position: int | None) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == parameter), None)
    if named is not None or position is None or any(isinstance(arg, ast.Starred) for arg in call.args):
        return named
    return call.args[position] if position < len(call.args) else None


def _position(function: Function, name: str) -> int | None:
    """Place of a parameter among the positional arguments of a call; None for one that has to be named."""
    spelled = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    bound = 1 if spelled[:1] in (["self"], ["cls"]) else 0
    return spelled.index(name) - bound if name in spelled else None


def _parameters(function: Function) -> list[str]:
    spelled = function.args
    return [a.arg for a in (*spelled.posonlyargs, *spelled.args, *spelled.kwonlyargs)]


def _is_set_in(function: Function, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in own_nodes(function))


def _is_loop_name(scope: ast.AST, name: str) -> bool:
    loops = (n.target for n in own_nodes(scope) if isinstance(n, ast.For | ast.AsyncFor | ast.comprehension))
    return any(isinstance(n, ast.Name) and n.id == name for target in loops for n in ast.walk(target))


def partner_on_line(
    where: Where | None, operation: str, rank: int, world_size: int | None, sources: Mapping[str, SourceFile]
) -> int | None:
    """Global rank of the partner of the one ``send`` or ``recv`` on that line; None when it is unknown."""
    place = find_line(sources, where.file, where.line) if where is not None else None
    if where is None or where.line is None or place is None:
        return None
    calls = [call for call in place.calls(where.line) if call_name(call).lstrip("i") == operation.lstrip("i")]
    if len(calls) != 1 or operation not in POINT_TO_POINT:
        return None
    partner = _peer(calls[0])
    value = number_value(partner, rank, world_size) if partner is not None else None
    return value if value is not None and value >= 0 and (world_size is None or value < world_size) else None


def _peer(call: ast.Call) -> ast.expr | None:
    if any(keyword.arg in ("group", "group_dst", "group_src") for keyword in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg in ("src", "dst"):
            return keyword.value
    return call.args[1] if len(call.args) == 2 else None
