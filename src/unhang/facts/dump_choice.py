"""Choose one flight-recorder dump per rank, and notice when a folder holds the dumps of two jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from unhang.evidence.items import RecorderDump
from unhang.findings import Certainty, NotChecked, Unread
from unhang.knowledge.thresholds import threshold
from unhang.sentences import say

# Dumps of one stall are written within seconds to minutes of each other; a day apart is another run.
SAME_RUN_SPREAD_S = threshold("dump_choice.same_run_spread_s")


@dataclass(slots=True)
class ChosenDumps:
    """``by_rank`` holds the dump used for each rank; the rest says what was left aside and why."""

    by_rank: dict[int, RecorderDump]
    unread: list[Unread]
    not_checked: list[NotChecked]
    advanced_ranks: set[int]
    """Ranks whose later dump holds collectives that the earlier one did not."""


def choose_dumps(recordings: Sequence[RecorderDump]) -> ChosenDumps:
    """One recording per rank: those of the latest job, of each rank the latest dump."""
    unread: list[Unread] = []
    named = []
    for recording in _with_ranks(recordings):
        if recording.rank is None:
            reason = "no rank in its name; rename it to end in the rank (for example rank_3)"
            unread.append(Unread(recording.source, reason))
            continue
        named.append(recording)
    jobs = _split_jobs(named)
    latest = max(jobs, key=_job_order, default=[])
    not_checked = [_two_jobs(jobs, latest)] if len(jobs) > 1 else []
    if unread:
        not_checked.append(_dumps_without_rank(len(unread)))
    for job in jobs:
        if job is not latest:
            unread.extend(Unread(r.source, "belongs to another job than the one diagnosed", r.rank) for r in job)
    by_rank: dict[int, RecorderDump] = {}
    advanced: set[int] = set()
    in_doubt: set[int] = set()
    for recording in sorted(latest, key=_dump_order):
        rank = recording.rank
        assert rank is not None
        if rank in by_rank and _are_two_processes(by_rank[rank], recording):
            in_doubt.add(rank)
        elif rank in by_rank and _last_ns(by_rank[rank]) < _last_ns(recording):
            advanced.add(rank)
        by_rank[rank] = recording
    if in_doubt:
        not_checked.append(_two_processes(sorted(in_doubt)))
    return ChosenDumps(by_rank, unread, not_checked, advanced)


def _are_two_processes(one: RecorderDump, other: RecorderDump) -> bool:
    """Two dumps of one process agree on when a call was made; of two processes none of the times does."""
    import numpy as np  # loaded with the first dump, never for logs alone

    _, at, there = np.intersect1d(one.entries.record_id, other.entries.record_id, return_indices=True)
    return len(at) > 0 and not (one.entries.created_ns[at] == other.entries.created_ns[there]).any()


def _two_processes(ranks: list[int]) -> NotChecked:
    return NotChecked(
        say("which dump belongs to {ranks:who}", ranks=ranks),
        say("two processes wrote a dump under this rank; the later one was read"),
        how="unhang diagnose DIR_OF_ONE_JOB",
        caps=Certainty.LIKELY,
    )


def _dumps_without_rank(count: int) -> NotChecked:
    return NotChecked(
        say("what {count} dumps without a rank contain", count=count),
        say("their names contain no rank; rename them so that they end in the rank"),
        "mv DUMP DUMP_rank_3",
        caps=Certainty.LIKELY,
    )


def _with_ranks(recordings: Sequence[RecorderDump]) -> list[RecorderDump]:
    """A dump whose name has no rank still has one when only one rank is a member of all its groups but not seen."""
    unnamed = [r for r in recordings if r.rank is None]
    members = [set(g.ranks) for g in unnamed[0].groups.values() if g.ranks] if len(unnamed) == 1 else []
    free = set.intersection(*members) - {r.rank for r in recordings} if members else set()
    if len(free) == 1:
        unnamed[0].rank = free.pop()
    return list(recordings)


def _split_jobs(recordings: Sequence[RecorderDump]) -> list[list[RecorderDump]]:
    """Recordings that can belong together: same world, same library, and written in one stretch of time.

    Time only splits where it must: when a rank has two dumps that lie hours apart.
    """
    by_world: dict[tuple[object, ...], list[RecorderDump]] = defaultdict(list)
    for recording in recordings:
        by_world[_world_key(recording)].append(recording)
    _join_unknown_worlds(by_world)
    jobs: list[list[RecorderDump]] = []
    for _, group in sorted(by_world.items(), key=lambda item: repr(item[0])):
        jobs.extend(_split_by_time(group))
    return jobs


def _world_key(recording: RecorderDump) -> tuple[object, ...]:
    ranks = _default_ranks(recording)
    return (ranks, recording.library_version) if ranks is not None else ()


def _join_unknown_worlds(by_world: dict[tuple[object, ...], list[RecorderDump]]) -> None:
    """Dumps that do not know their world join the only one there is."""
    unknown = by_world.get(())
    if unknown and len(by_world) == 2:
        known = next(key for key in by_world if key)
        by_world[known].extend(by_world.pop(()))


def _default_ranks(recording: RecorderDump) -> tuple[int, ...] | None:
    for group in recording.groups.values():
        if group.description == "default_pg" and group.ranks:
            return group.ranks
    return None


def _split_by_time(recordings: list[RecorderDump]) -> list[list[RecorderDump]]:
    ranks = [r.rank for r in recordings]
    if len(set(ranks)) == len(ranks):
        return [recordings]
    dated = sorted(recordings, key=_dump_order)
    jobs = [[dated[0]]]
    for recording in dated[1:]:
        if _last_ns(recording) - _last_ns(jobs[-1][-1]) > SAME_RUN_SPREAD_S * 1e9:
            jobs.append([recording])
        else:
            jobs[-1].append(recording)
    return jobs


def _last_ns(recording: RecorderDump) -> int:
    created = recording.entries.created_ns
    if len(created):
        return int(created.max())
    return int((recording.written_s or 0.0) * 1e9)


def _dump_order(recording: RecorderDump) -> tuple[int, float, int, str]:
    """Later dumps of one rank sort last; the path breaks ties so that file order never matters."""
    ids = recording.entries.record_id
    return (_last_ns(recording), recording.written_s or 0.0, int(ids.max()) if len(ids) else -1, recording.source.path)


def _job_order(job: list[RecorderDump]) -> tuple[int, int, str]:
    return (max(_last_ns(r) for r in job), len(job), min(r.source.path for r in job))


def _two_jobs(jobs: list[list[RecorderDump]], latest: list[RecorderDump]) -> NotChecked:
    others = sum(len(job) for job in jobs) - len(latest)
    return NotChecked(
        say("{others} dumps of {count} other job(s) in the same place", others=others, count=len(jobs) - 1),
        say("only the latest job was diagnosed ({count} dumps)", count=len(latest)),
        how="unhang diagnose DIR_OF_ONE_JOB",
        caps=Certainty.LIKELY,
    )
