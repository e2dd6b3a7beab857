"""What could not be looked at, why, and the command that would show it."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.endings.good_endings import good_endings
from unhang.facts.model import Facts, RankState
from unhang.findings import Cause, Certainty, Finding, NotChecked, Severity
from unhang.sentences import say

RECORDER_ON = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_FR_BUFFER_SIZE=2000"


def missing_stacks(facts: Facts, findings: tuple[Finding, ...]) -> Iterator[NotChecked]:
    """Where ``unknown`` leads: laggards of which no stack was given."""
    if not findings or findings[0].cause is not Cause.UNKNOWN:
        return
    without = tuple(rank for rank in findings[0].ranks if rank in facts.ranks and facts.ranks[rank].stack is None)
    if without:
        yield NotChecked(
            say("what {ranks:who} {ranks:was|were} doing", ranks=without),
            say("no stack of it was given"),
            how="py-spy dump --pid PID > stack_rank_N.txt",
        )


def missing_end(facts: Facts, findings: tuple[Finding, ...]) -> Iterator[NotChecked]:
    """Where logs show a slow job, and no line behind its last step tells what became of it."""
    if not findings or findings[0].severity is not Severity.SLOWS or facts.manifests or not facts.logs:
        return
    ended = good_endings(facts)
    if facts.exits or facts.tracebacks or ended.whole or ended.ranks or facts.events_of("te.", "slurm.", "k8s."):
        return
    yield NotChecked(
        say("how the job ended"),
        say("no exit, no limit and no word of an end was read: it may have gone on, stood still or been killed"),
        how="unhang diagnose launcher.log rank_*.log, each to its last line",
    )


def gaps_of(facts: Facts) -> Iterator[NotChecked]:
    """Missing ranks, dumps without entries, groups whose members are not known."""
    yield from _missing_ranks(facts)
    yield from _recorder_off(facts)
    yield from _no_world(facts)


def _missing_ranks(facts: Facts) -> Iterator[NotChecked]:
    missing = facts.ranks_missing
    if missing and facts.ranks_seen and not _only_launcher_names_ranks(facts):
        yield NotChecked(
            say("{ranks:who}", ranks=missing),
            say("no log, dump or stack of it was given"),
            how="unhang diagnose with the files of these ranks added",
            caps=Certainty.LIKELY,
        )


def _only_launcher_names_ranks(facts: Facts) -> bool:
    """Ranks are known from their ends alone: whose the other lines are is open, and may be anybody's."""
    told = {rank for log in facts.logs for rank in log.ranks}
    seen = (facts.ranks[rank] for rank in facts.ranks_seen)
    own = any(known.rank in told or known.recording is not None or known.stack is not None for known in seen)
    return not own and any(t.rank is None for t in facts.tracebacks)


def _recorder_off(facts: Facts) -> Iterator[NotChecked]:
    """A dump with a status and no entries although work is pending: the recorder was off (torch 2.7 to 2.10)."""
    empty = tuple(
        rank
        for rank, known in facts.ranks.items()
        if known.recording is not None
        and not len(known.recording.entries)
        and known.recording.status
        and known.recording.whole
        and any(s.last_enqueued > s.last_completed for s in known.recording.status.values())
    )
    if empty:
        yield NotChecked(
            say("which collectives {ranks:who} {ranks:was|were} in", ranks=empty),
            say("their dumps hold no entries: the flight recorder was off (its default up to torch 2.10)"),
            how=f"run again with {RECORDER_ON}",
        )


def _has_program_lines(facts: Facts) -> bool:
    """Not only the kernel, which knows of cards and of no ranks."""
    return any(not event.kind.startswith("k.") for event in facts.events)


def _no_world(facts: Facts) -> Iterator[NotChecked]:
    seen = facts.ranks_seen
    if facts.world_size is None and not seen and (facts.tracebacks or _has_program_lines(facts)):
        yield NotChecked(
            say("how many ranks there are"),
            say("no line that was read says of which rank it is"),
            how="unhang diagnose launcher.log rank_*.log",
            caps=Certainty.LIKELY,
        )
    if facts.world_size is None and seen and any(r.state is not RankState.MISSING for r in facts.ranks.values()):
        yield NotChecked(
            say("how many ranks there are"),
            say("nothing that was read names the world size; {ranks:who} {ranks:was|were} seen", ranks=seen),
            how="unhang diagnose launcher.log rank_*.log",
            caps=Certainty.LIKELY if len(seen) <= max(seen) or len(seen) == 1 else None,
        )
