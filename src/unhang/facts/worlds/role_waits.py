"""Which part of a job waited for which when its lines ended, as the last lines of each say.

Trainers, engines and drivers wait for each other through calls, queues and requests, of which no collective tells. A
part whose last word is that it waits, waits; parts that wait for each other in a circle never go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from unhang.evidence.items import LastLine, LogReading
from unhang.facts.evidence_quotes import quote_line
from unhang.facts.role_wait import RoleWait
from unhang.knowledge.thresholds import whole_threshold
from unhang.knowledge.worlds.role_waits import WaitRow, wait_rows
from unhang.knowledge.worlds.roles import ProgramRow, Role, program_row, row_of_log, world_of

LAST_WORDS = whole_threshold("role_waits.last_words")


def role_waits(logs: Collection[LogReading]) -> tuple[RoleWait, ...]:
    """Of each part that speaks of a wait last, that wait: the latest of its processes'."""
    if len(logs) < 2 and not any(log.programs for log in logs):
        return ()
    latest: dict[str, tuple[LastLine, RoleWait | None]] = {}
    for line, role, wait in _spoken(logs):
        before = latest.get(role)
        if before is None or _is_later(line, before[0]):
            latest[role] = line, wait
    return tuple(wait for _, wait in latest.values() if wait is not None)


def waits_in_circle(waits: Iterable[RoleWait]) -> tuple[RoleWait, ...]:
    """Those that close a circle, each behind the one that waits for it; empty where there is none."""
    by_waiter = {wait.waiter: wait for wait in waits}
    for start in by_waiter:
        path: list[RoleWait] = []
        at = start
        while at in by_waiter and by_waiter[at] not in path:
            path.append(by_waiter[at])
            at = by_waiter[at].awaited
        if at == start and len(path) > 1:
            return tuple(path)
    return ()


def _spoken(logs: Iterable[LogReading]) -> Iterator[tuple[LastLine, Role, RoleWait | None]]:
    """The last telling line of each program in each log, if little was said after it: a wait, or the end of one."""
    for log in logs:
        of_log = row_of_log(log.source.path)
        if of_log is None and not log.programs:
            continue
        after = Counter[tuple[str, int | None]]()
        for line in reversed(log.said):
            speaker = (line.program, line.rank)
            after[speaker] += 1
            if after[speaker] >= LAST_WORDS:
                continue
            known = program_row(line.program) if line.program else of_log
            told = next((found for row in wait_rows() if (found := _told(row, known, line)) is not None), None)
            if told is not None:
                after[speaker] += LAST_WORDS
                yield told


def _told(row: WaitRow, known: ProgramRow | None, line: LastLine) -> tuple[LastLine, Role, RoleWait | None] | None:
    """What ``line`` says of this wait; None where it is of something else."""
    if not _may_be(row, known):
        return None
    role, awaited = world_of(row.waiter), world_of(row.awaits)
    if any(done in line.text for done in row.done):
        return line, role, None
    if any(says in line.text for says in row.says):
        return line, role, RoleWait(role, awaited, row.what, quote_line(line))
    return None


def _may_be(row: WaitRow, known: ProgramRow | None) -> bool:
    """Whether the row may be of the program that speaks; lines without a prefix are the driver's own."""
    speaks = row.printed_by or row.waiter
    if known is None:
        return speaks == "driver"
    if row.framework and known.framework and row.framework != known.framework and known.role != "server":
        return False
    return world_of(known.role) == world_of(speaks)


def _is_later(line: LastLine, before: LastLine) -> bool:
    if line.time_s is not None and before.time_s is not None:
        return line.time_s > before.time_s
    return line.source.path == before.source.path and (line.source.line or 0) > (before.source.line or 0)
