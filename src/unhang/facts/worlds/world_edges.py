"""Who waited for whom across the worlds of a job: errors that only say that a process of another world failed, or did
not answer, and name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unhang.evidence.items import PythonTraceback
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.model import Facts
from unhang.findings import WorldEdge
from unhang.knowledge import numbers
from unhang.knowledge.worlds.roles import program_row, world_of
from unhang.late_pattern import late_pattern

_NAMED = late_pattern(
    r"class_name: (?:[\w.<>]*\.)?(?P<program>\w+)|\bray::(?P<actor>\w+)\.|\b(?P<engine>EngineCore|EngineDead)|"
    r"\bpid[:=] ?(?P<pid>\d{1,10})\b"
)
_ENGINE = "EngineCore"
MAX_EDGES = 64


def edges_between(worlds: Sequence[tuple[str, Facts]]) -> tuple[WorldEdge, ...]:
    """Each pair of worlds once, as its first error tells."""
    by_pid = {pid: (name, known.rank) for name, facts in worlds for known in facts.ranks.values() if (pid := known.pid)}
    programs = {
        program: name
        for name, facts in worlds
        for log in facts.logs
        for item in log.tracebacks
        if (program := item.program)
    }
    found: dict[tuple[str, str], WorldEdge] = {}
    for name, facts in worlds:
        for raised in facts.tracebacks:
            for edge in _edges(name, raised, by_pid, programs, {other for other, _ in worlds}):
                if len(found) < MAX_EDGES:
                    found.setdefault((edge.waiter, edge.awaited), edge)
    return tuple(found.values())


def _edges(
    name: str,
    raised: PythonTraceback,
    by_pid: Mapping[int, tuple[str, int]],
    programs: Mapping[str, str],
    names: set[str],
) -> Iterator[WorldEdge]:
    if not is_echo(raised):
        return
    for told in _NAMED.finditer(f"{raised.exception}: {raised.message}"):
        world, rank = by_pid.get(numbers.integer(told["pid"] or "") or -1, ("", None))
        program = told["program"] or told["actor"] or (_ENGINE if told["engine"] else "")
        world = world or programs.get(program, "") or _role(program)
        if world in names and world != name:
            waiters = () if raised.rank is None else (raised.rank,)
            yield WorldEdge(name, world, waiters, () if rank is None else (rank,), quote_traceback(raised))


def _role(program: str) -> str:
    row = program_row(program) if program else None
    return "" if row is None else world_of(row.role)
