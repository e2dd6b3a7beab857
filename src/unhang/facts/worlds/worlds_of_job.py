"""Whose each item is, where a job is of several worlds: trainers, engines that generate or serve, what scores.

Each world numbers its own ranks, so its items become facts by themselves. A world is told by the program that a line's
prefix names, else by the name of its log. What is nobody's, and what only calls the others, is of the first world:
the trainers', or the one that said most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LogReading, StackDump
from unhang.knowledge.worlds.roles import ProgramRow, Role, program_row, row_of_log, world_of

_OF_THE_FIRST: tuple[Role, ...] = ("driver", "data", "environment")


@dataclass(frozen=True, slots=True)
class WorldFiles:
    """What was read of one world. ``row``: of the program that most of its items are of; None where there is one."""

    id: str
    row: ProgramRow | None
    evidence: EvidenceSet
    programs: tuple[str, ...] = ()
    """As their lines call them."""


def worlds_of(evidence: EvidenceSet) -> tuple[WorldFiles, ...]:
    """The first world, then the others by name; all of it as one where a job has no others."""
    if evidence.manifests or not _may_be_several(evidence.logs):  # a watcher knows its processes
        return (WorldFiles("", None, evidence),)
    who = _Owners(evidence)
    names = [name for name, _ in who.counted.most_common()]
    if len(names) < 2:
        return (WorldFiles("", None, evidence),)
    first = "trainer" if "trainer" in names else names[0]
    others = sorted(name for name in names if name != first)
    return tuple(
        WorldFiles(name, who.rows[name], _files(evidence, who, name, first), who.programs_of(name))
        for name in (first, *others)
    )


def _may_be_several(logs: Sequence[LogReading]) -> bool:
    if any(log.programs for log in logs):
        return True
    rows = (row_of_log(log.source.path) for log in logs) if len(logs) > 1 else ()
    return len({row.role for row in rows if row is not None}) > 1


class _Owners:
    """The world of each item. ``counted``: how many items each has that does work of its own."""

    def __init__(self, evidence: EvidenceSet) -> None:
        self.rows: dict[str, ProgramRow] = {}
        self.counted: Counter[str] = Counter()
        self._programs: dict[str, set[str]] = {}
        self._by_pid: dict[int, str] = {}
        for log in evidence.logs:
            for pid, program in log.programs.items():
                self._by_pid[pid] = program
            for item in _items(log):
                row = self._row(item, log)
                if row is None or row.role in _OF_THE_FIRST:
                    continue
                name = world_of(row.role)
                self.counted[name] += 1
                self.rows.setdefault(name, row)
                self._programs.setdefault(name, set()).add(getattr(item, "program", ""))

    def programs_of(self, name: str) -> tuple[str, ...]:
        """The programs of the world ``name``."""
        return tuple(sorted(self._programs.get(name, set()) - {""}))

    def world_of(self, item: Any, log: LogReading | None) -> str:
        """The name of a world; empty for what is nobody's."""
        row = self._row(item, log)
        return "" if row is None or row.role in _OF_THE_FIRST else world_of(row.role)

    def _row(self, item: Any, log: LogReading | None) -> ProgramRow | None:
        pid = getattr(item, "pid", None)
        title = item.command if isinstance(item, StackDump) else ""
        program = getattr(item, "program", "") or self._by_pid.get(pid if pid is not None else -1, "") or title
        row = program_row(program) if program else None
        return row or (row_of_log(log.source.path) if log is not None and not program else None)


def _files(evidence: EvidenceSet, who: _Owners, name: str, first: str) -> EvidenceSet:
    """What is the first world's is also what is nobody's; only lines of a kernel are everybody's."""
    owned = (name, "") if name == first else (name,)
    stacks = [stack for stack in evidence.stacks if who.world_of(stack, None) in owned]
    logs = [part for log in evidence.logs if (part := _part(log, who, owned, whole=name == first)) is not None]
    if name == first:
        return replace(evidence, logs=logs, stacks=stacks)
    return EvidenceSet(logs=logs, stacks=stacks, sources=evidence.sources, inputs=evidence.inputs)


def _part(log: LogReading, who: _Owners, owned: tuple[str, ...], *, whole: bool) -> LogReading | None:
    if log.role == "kernel":
        return log

    def is_owned(item: Any) -> bool:
        return getattr(item, "kind", "").startswith("k.") or who.world_of(item, log) in owned

    kept: dict[str, Any] = {name: tuple(filter(is_owned, getattr(log, name))) for name in _LISTS}
    if not whole:
        if not any(kept.values()):
            return None
        kept |= {"endings": (), "unread": (), "sizes": (), "folded": {}, "role": ""}
    ranks = {item.rank for name in _LISTS for item in kept[name]} | (set(_named_by_nobody(log)) if whole else set())
    return replace(log, **kept, ranks=tuple(sorted(rank for rank in ranks if rank is not None)))


def _named_by_nobody(log: LogReading) -> Iterator[int]:
    """Ranks that a log names and no item of it has."""
    told = {item.rank for item in _items(log)}
    yield from (rank for rank in log.ranks if rank not in told)


_LISTS = ("events", "tracebacks", "exits", "progress", "last_lines", "said", "unrecognized_failures")


def _items(log: LogReading) -> Iterator[Any]:
    for name in _LISTS:
        yield from getattr(log, name)
