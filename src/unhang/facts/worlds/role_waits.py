"""Which part of a job waits for which: as its last lines say, or the stacks of its processes.

Trainers, engines and drivers wait for each other through calls, queues and requests, of which no collective tells. A
part whose last word is that it waits, waits; so does one of whose processes one stands in such a wait, and none does
anything but wait for it. Parts that wait for each other in a circle never go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, LastLine, LogReading, StackDump, ThreadStack
from unhang.facts.evidence_quotes import quote_line
from unhang.facts.role_wait import RoleWait
from unhang.findings import Evidence, Source, Where
from unhang.knowledge.activities import bare_function
from unhang.knowledge.thresholds import whole_threshold
from unhang.knowledge.worlds.role_waits import WaitRow, frame_rows, wait_rows
from unhang.knowledge.worlds.roles import ProgramRow, Role, program_row, row_of_log, world_of

_BESIDE = ("torch/distributed/distributed_c10d.py", "torch/utils/data/_utils/worker.py")
LAST_WORDS = whole_threshold("role_waits.last_words")


def role_waits(job: EvidenceSet) -> tuple[RoleWait, ...]:
    """Of each part that waits, that wait: what stacks show, for they are of the end, else what its lines say (not
    those that a watcher kept: it has the stacks)."""
    seen = _waits_in_stacks(job.stacks)
    spoken = (wait for wait in _spoken_waits(() if job.manifests else job.logs) if wait.waiter not in seen)
    return (*(wait for wait in seen.values() if wait is not None), *spoken)


def _waits_in_stacks(stacks: Collection[StackDump]) -> Mapping[str, RoleWait | None]:
    """Of each part with a process whose stack was read, what it waits for; None where one does anything else, or was
    seen to do so."""
    found: dict[str, RoleWait | None] = {}
    busy = set[str]()
    processes: dict[int | str, list[StackDump]] = {}
    for stack in sorted(stacks, key=lambda one: (one.source.path, one.source.line or 0)):
        processes.setdefault(stack.pid or f"{stack.source}", []).append(stack)
    for dumps in processes.values():
        title, rank = dumps[-1].command, dumps[-1].rank
        known = program_row(title) if title else None
        waits = [_wait_of(dump, known) for dump in dumps]
        wait = waits[-1]
        if wait is not None and all(other is not None and other.where == wait.where for other in waits):
            found.setdefault(wait.waiter, wait)
        elif wait is not None or ((known is not None or rank is not None) and not all(map(_is_beside, dumps))):
            busy.add(wait.waiter if wait is not None else world_of(known.role) if known is not None else "trainer")
    return found | dict.fromkeys(busy)


def _wait_of(dump: StackDump, known: ProgramRow | None) -> RoleWait | None:
    return next((wait for thread in dump.threads if (wait := _wait_in(thread, dump, known)) is not None), None)


def _wait_in(thread: ThreadStack, stack: StackDump, known: ProgramRow | None) -> RoleWait | None:
    for at, frame in enumerate(thread.frames):
        for row in frame_rows().get(bare_function(frame.function), ()):
            if not _is_at(row.files, frame) or (row.process and (known is None or row.process not in stack.command)):
                continue
            inside = [f"{inner.file}:{bare_function(inner.function)}" for inner in thread.frames[:at]]
            if row.through and not any(_ends_in(place, called) for called in row.through for place in inside):
                continue
            quote = Evidence(Source(stack.source.path, thread.line), f"{frame.function} ({frame.file}:{frame.line})")
            where = Where(frame.file, frame.line, frame.function)
            return RoleWait(world_of(row.waiter), world_of(row.awaits), row.what, quote, where)
    return None


def _is_at(files: Collection[str], frame: Frame) -> bool:
    return any(_ends_in(frame.file, file) for file in files)


def _ends_in(path: str, ending: str) -> bool:
    return f"/{path}".endswith((f"/{ending}", f":{ending}"))


def _is_beside(stack: StackDump) -> bool:
    """It waits for its equals in a collective, or loads data."""
    return any(frame.file.endswith(_BESIDE) for thread in stack.threads for frame in thread.frames)


def _spoken_waits(logs: Collection[LogReading]) -> tuple[RoleWait, ...]:
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
