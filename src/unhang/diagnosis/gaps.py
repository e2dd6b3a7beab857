"""What could not be looked at, why, and the command that would show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.wording.next_steps import stack_commands
from unhang.facts.endings.good_endings import good_endings, is_job_over
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding, NotChecked, Severity, Verdict
from unhang.sentences import say
from unhang.wire.documents.bundle import RankProcess

RECORDER_ON = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_FR_BUFFER_SIZE=2000"


def name_gaps(facts: Facts, verdict: Verdict) -> Verdict:
    """Names what was not given: ranks, entries of a dump, the world size, stacks that nobody could read from outside.
    Such a gap may cap every certainty, as may anything that was lost or could not be read.
    """
    gaps = (*absent_ranks(facts), *_recorder_off(facts), *_unreadable_stacks(facts))
    return replace(verdict, not_checked=(*verdict.not_checked, *gaps))


def name_gaps_of_lead(facts: Facts, verdict: Verdict) -> Verdict:
    """Names the stacks that an ``unknown`` in the lead lacks, and the end that a log of a slow job lacks."""
    if not verdict.findings:
        return verdict
    lead = verdict.findings[0]
    return replace(
        verdict, not_checked=(*verdict.not_checked, *_missing_stacks(facts, lead), *_missing_end(facts, lead))
    )


def _missing_stacks(facts: Facts, lead: Finding) -> Iterator[NotChecked]:
    """Where ``unknown`` leads: laggards of which no stack was given."""
    if lead.cause is not Cause.UNKNOWN:
        return
    without = tuple(rank for rank in lead.ranks if rank in facts.ranks and facts.ranks[rank].stack is None)
    if without:
        yield NotChecked(
            say("what {ranks:who} {ranks:was|were} doing", ranks=without),
            say("no stack was given"),
            how="" if is_job_over(facts) else stack_commands(facts, without),
        )


def _missing_end(facts: Facts, lead: Finding) -> Iterator[NotChecked]:
    """Where logs show a slow job, and no line behind its last step tells what became of it."""
    if lead.severity is not Severity.SLOWS or facts.manifests or not facts.logs:
        return
    ended = good_endings(facts)
    if facts.exits or facts.tracebacks or ended.whole or ended.ranks or facts.events_of("te.", "slurm.", "k8s."):
        return
    yield NotChecked(
        say("how the job ended"),
        say("no exit, timeout or end is recorded: it may have continued, stalled or been killed"),
        how="unhang diagnose launcher.log rank_*.log",
    )


def absent_ranks(facts: Facts) -> Iterator[NotChecked]:
    """Ranks of which nothing was read, and how many there are where nothing says it."""
    missing = facts.ranks_missing
    if missing and facts.ranks_seen and not _only_launcher_names_ranks(facts):
        yield NotChecked(
            say("{ranks:who}", ranks=missing),
            say("no log line, dump or stack marked as such was given"),
            how="unhang diagnose LOGDIR",
            caps=Certainty.LIKELY,
        )
    yield from _no_world(facts)


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
            say("their dumps contain no entries: the flight recorder was off (its default up to torch 2.10)"),
            how=f"export {RECORDER_ON}",
        )


def _no_world(facts: Facts) -> Iterator[NotChecked]:
    seen = facts.ranks_seen
    # the kernel knows of cards and of no ranks
    spoke = facts.tracebacks or any(not event.kind.startswith("k.") for event in facts.events)
    if facts.world_size is None and (seen or spoke):
        yield NotChecked(
            say("how many ranks the job has"),
            say("the world size is not recorded; {ranks:who} {ranks:was|were} seen", ranks=seen)
            if seen
            else say("no line names its rank"),
            how="unhang diagnose launcher.log rank_*.log",
            caps=None if len(seen) > max((1, *seen)) else Certainty.LIKELY,
        )


def _unreadable_stacks(facts: Facts) -> Iterator[NotChecked]:
    """One gap for each reason. What the ranks' own records name is one thread of several, so nothing is certain."""
    together: dict[tuple[str, bool], list[RankProcess]] = defaultdict(list)
    for manifest in facts.manifests:
        for process in manifest.processes:
            if process.not_seen:
                together[process.not_seen, process.from_record].append(process)
    for (reason, from_record), processes in sorted(together.items()):
        ranks = tuple(sorted(process.rank for process in processes))
        yield NotChecked(
            say("all threads of {ranks:who}", ranks=ranks)
            if from_record
            else say("what {ranks:who} {ranks:was|were} doing", ranks=ranks),
            say("{reason}; one thread is known from the record the rank keeps", reason=reason)
            if from_record
            else say("{reason}; only the process state was seen", reason=reason),
            how=_how(reason, processes),
            caps=Certainty.LIKELY,
        )


def _how(reason: str, processes: list[RankProcess]) -> str:
    if "not installed" in reason:
        return "pip install py-spy"
    pid = next((process.pid for process in processes if process.pid is not None), None)
    command = "unhang attach" if pid is None else f"py-spy dump --pid {pid}"
    return f"sudo {command} (a container needs --cap-add=SYS_PTRACE)"
