"""Who is late and for how long, what everybody is in, what groups are called: shared by the parts of the page."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.model import Facts, GroupFacts, PendingCall, RankState
from unhang.facts.waiting.timeouts import guard_limit, limit_at_s, live_manifest
from unhang.findings import Severity, Status, Verdict
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.report.first_lines import spoken_time
from unhang.report.layout.durations import duration
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say
from unhang.wire.documents.bundle import BundleManifest


def late_ranks(verdict: Verdict, facts: Facts) -> frozenset[int]:
    """The ranks to point at: those of the verdict when it singles some out, else those others wait for."""
    first = verdict.findings[0] if verdict.findings else None
    if first is not None and first.ranks and first.severity is not Severity.NOTE:
        everybody = verdict.world_size or len(verdict.ranks_seen)
        if len(first.ranks) * 2 <= everybody:
            return frozenset(first.ranks)
    named = {rank for rank, known in facts.ranks.items() if known.state is RankState.LAGGARD}
    return frozenset(named | set(facts.graph.roots))


def pending_calls(facts: Facts) -> dict[int, PendingCall]:
    """What each rank is in: its unfinished call in the group of the stall, else in the first group by name."""
    leading = [stall.group for stall in facts.stalls]
    names = [name for name in dict.fromkeys([*leading, *sorted(facts.groups)]) if name in facts.groups]
    found: dict[int, PendingCall] = {}
    for name in names:
        for rank, progress in facts.groups[name].progress.items():
            if progress.pending is not None:
                found.setdefault(rank, progress.pending)
    return found


def group_label(group: GroupFacts) -> str:
    """Its description, or its name where PyTorch was given none (it then records ``undefined``)."""
    if group.description and group.description != "undefined":
        return group.description
    return f"group {group.name}" if group.name.isdigit() else group.name


def waited_lines(verdict: Verdict, facts: Facts, localizer: Localizer) -> list[str]:
    """How long ranks had waited for whom, and when that ends, by the clock: the page is read later than it was written.
    Nothing of what is not known, nor of a job that has ended or moves."""
    looked = live_manifest(facts)
    if not facts.stalls or verdict.status not in (Status.HANG, Status.SLOW):
        return []
    told = _of_a_limit(facts) if looked is None or looked.taken_s is None else _of_a_look(looked, looked.taken_s, facts)
    return [localizer.sentence(text) for text in told]


def _of_a_limit(facts: Facts) -> Iterator[Text]:
    call = facts.stalls[0].call
    if call is not None and call.timeout_ms:
        yield say("torch allows a wait of {time}.", time=duration(call.timeout_ms / 1000))


def _of_a_look(looked: BundleManifest, taken_s: float, facts: Facts) -> Iterator[Text]:
    stall = facts.stalls[0]
    if looked.stalled_since_s is not None:
        yield say(
            "{waiters:who} had waited {time} for {laggards:who} at {at}.",
            waiters=stall.waiters,
            laggards=stall.laggards,
            time=duration(taken_s - looked.stalled_since_s),
            at=clock(taken_s),
        )
    at_s, guard = limit_at_s(facts, looked.stalled_since_s), guard_limit(facts)
    limits = [*([(at_s, "torch")] if at_s is not None else []), *([guard] if guard is not None else [])]
    for first_s, who in sorted(limits)[:1]:
        ahead = say("{guard} gives up at {at}.", guard=who, at=clock(first_s))
        yield ahead if first_s > taken_s else say("the wait's timeout has passed")


def clock(time_s: float) -> str:
    """The time of day, with its zone."""
    return spoken_time(time_text(time_s, TimeForm.ZONE)).partition(" ")[2]
