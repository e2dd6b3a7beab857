"""unknown: something is stuck and the evidence does not say why; it says what was seen and what would settle it.

What happens: all ranks joined a collective and none finished it; or the laggard is known, but not what it was doing; or
ranks timed out, and nothing shows what the rank they waited for did.
Why it hangs: where all ranks are in the same call with the same shape, the transport (network, GPU, P2P) carries
nothing, or a rank queued a kernel before the call that never ends. A laggard without a stack may be doing anything.
Example: sixteen ranks in all_reduce #41, all enqueued, none completed.
Fix: collect what is missing (the verdict has the command), then ask again.
Certain when: never. It is the honest answer.
Possible when: the findings after it (`network-fault`, `gpu-hardware`, `p2p-broken`) are listed as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.evidence_lines import group_label, hosts_of, numbered, operation_of, waiters_call
from unhang.causes.wording.logged_timeouts import who_timed_out
from unhang.causes.wording.next_steps import inspect_all, inspect_ranks, tell_kernel_from_transport
from unhang.causes.wording.signals import CPU_BACKENDS, chosen_transport_reason, stall_signal, transport_evidence
from unhang.evidence.items import LogEvent, PythonTraceback
from unhang.facts.endings.stated_failures import last_exception
from unhang.facts.evidence_quotes import exception_line, exception_source
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import AllJoinedStall, CodeContext, Facts, RankState, Stall
from unhang.facts.stacks.gil_holders import gil_hold
from unhang.facts.waiting.pending_call_frames import last_recorded_call
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP, waiting_activity
from unhang.facts.waiting.stalls import all_wait, is_device_behind, nobody_moved
from unhang.findings import Cause, Evidence, Grade, Phase, Severity
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, shortened

CAUSE = Cause.UNKNOWN
tell = Sentences("causes/unknown.toml")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Who is behind, or that nobody is; else what is known of what stopped the job."""
    # Where somebody is behind, groups that look symmetric only wait behind the others.
    for symmetric in () if facts.graph.edges else facts.all_joined_stalls:
        yield _all_joined(facts, symmetric)
    for stall in facts.stalls:
        yield _laggard(facts, stall)
    yield from _nothing_else(facts)


def _all_joined(facts: Facts, stall: AllJoinedStall) -> DetectorResult:
    first = stall.pending[stall.ranks[0]]
    by_logs = _told_by_logs(facts, stall.group)
    backends = {known.recording.backend for known in facts.ranks.values() if known.recording is not None}
    on_cpu = bool(backends & CPU_BACKENDS)
    return make_signal(
        Grade.ORDER,
        tell(
            "all-timed-out" if by_logs else "joined-none-finished",
            count=len(stall.ranks),
            operation=stall.operation,
            position=stall.position,
            call=numbered(operation_of(first), first.position),
        ),
        group=group_label(facts, stall.group),
        where=first.where,
        waiter_where=first.where,
        calls=waiters_call(stall.ranks, first),
        because=(
            tell("same-call"),
            tell("nobody-behind"),
            *(() if on_cpu else (tell("kernel-before"),)),
            *chosen_transport_reason(facts),
        ),
        evidence=(*(stall.pending[rank].evidence for rank in stall.ranks[:2]), *transport_evidence(facts)),
        remedies=(
            *(() if on_cpu else tell_kernel_from_transport(facts, stall.ranks)),
            remedy("check-kernel-nccl-logs"),
        ),
    )


def _laggard(facts: Facts, stall: Stall) -> DetectorResult:
    at_work = _all_at_work(facts, stall)
    held = stall_signal(
        Grade.ORDER,
        _laggard_summary(facts, stall, at_work=at_work),
        facts,
        stall,
        whole=not (stall.reason == "silent" or _told_by_logs(facts, stall.group) or _laggards_wait_too(facts, stall)),
        severity=Severity.SLOWS if at_work else Severity.STOPS,
        nodes=hosts_of(facts, stall.laggards),
        because=tuple(_why_laggard(facts, stall)),
        remedies=(remedy("sample-again-later", ranks=stall.laggards),)
        if at_work
        else inspect_ranks(facts, stall.laggards),
    )
    # none of most ranks, of which nothing was read, is to blame for that, nor one whose output goes elsewhere
    spared = _most_are_silent(stall) or _may_speak_elsewhere(facts, stall)
    return replace(held, parts={**held.parts, "ranks": ()}) if spared else held


def _all_at_work(facts: Facts, stall: Stall) -> bool:
    """Each laggard lives, moved between two samples or was on a processor, and waits for nobody: a first step that
    takes longer on most ranks than on one is no hang."""
    for rank in stall.laggards:
        known = facts.ranks[rank]
        activity = known.activity
        if not known.alive or activity is None or gil_hold(facts, known) is not None:
            return False
        if activity.phase in (Phase.COMMUNICATION, Phase.SHUTDOWN) or activity.context is CodeContext.EXCEPT_HANDLER:
            return False
        if not known.moving and known.process_state != "R":
            return False
    return True


def _laggards_wait_too(facts: Facts, stall: Stall) -> bool:
    """The laggards wait as well, in groups of which no other member's record was read."""
    return all(
        any(
            group.name != stall.group and not group.members_known and group.pending(rank) is not None
            for group in facts.groups.values()
        )
        for rank in stall.laggards
    )


def _told_by_logs(facts: Facts, name: str) -> bool:
    """Only watchdog lines tell positions: old ones name no group, so that numbers of two groups may be compared."""
    group = facts.groups.get(name)
    return group is not None and all(progress.source_kind == "log" for progress in group.progress.values())


def _most_are_silent(stall: Stall) -> bool:
    """Nothing was read from as many ranks as wait: none of them is to blame for that."""
    return stall.reason == "silent" and len(stall.laggards) >= len(stall.waiters)


def _may_speak_elsewhere(facts: Facts, stall: Stall) -> bool:
    """The silent left no line at all, and the log may be a part of what was printed: the size of the job is not known
    and several ranks are missing, or every waiter printed steps of its own, so that theirs were left out."""
    if any(facts.ranks[rank].state is not RankState.MISSING for rank in stall.laggards):
        return False
    several = facts.world_size is None and len(stall.laggards) > 1
    return several or all(facts.ranks[rank].progress for rank in stall.direct_waiters)


def _laggard_summary(facts: Facts, stall: Stall, *, at_work: bool) -> Text:
    by_logs, states = _told_by_logs(facts, stall.group), {facts.ranks[rank].state for rank in stall.laggards}
    call = numbered(operation_of(stall.call), stall.position)
    told: dict[str, Any] = {"ranks": stall.laggards}
    logged = logged_waits(facts) if by_logs else None
    gave_up = tuple(w for w in logged.waits if w.rank in stall.direct_waiters) if logged is not None else ()
    told["waits"] = (
        who_timed_out(facts, LoggedWaits(gave_up))  # numbers of several groups count each its own calls
        if len({wait.position for wait in gave_up}) > 1
        else tell("timed-out-in" if by_logs else "waits-in", waiters=stall.direct_waiters, call=call, operation=call)
    )
    if at_work:
        return tell("works-still", **told)
    if is_device_behind(facts.groups, facts.ranks, stall):
        return tell("device-not-run", **told)
    if stall.reason == "silent" and states == {RankState.MISSING}:
        return tell("nothing-read", **told)
    if stall.reason == "silent" and all(facts.ranks[r].stack is not None for r in stall.laggards):
        return tell("stack-no-cause", **told)
    if stall.reason == "silent":
        return tell("no-timeout" if by_logs and RankState.MISSING not in states else "how-far", **told)
    if states == {RankState.CRASHED}:
        return tell("ended", **told)
    doing = {a.what for r in stall.laggards if (a := facts.ranks[r].activity) is not None}
    return tell("holds-up-key" if doing == {"store-wait"} else "holds-up", **told)


def _why_laggard(facts: Facts, stall: Stall) -> Iterator[Text]:
    group, label = facts.groups.get(stall.group), group_label(facts, stall.group)
    missing = tuple(rank for rank in stall.laggards if facts.ranks[rank].state is RankState.MISSING)
    if missing and _told_by_logs(facts, stall.group):
        yield tell("not-here", ranks=missing)
    yield from _last_seen(facts, stall)
    for rank in stall.laggards[:4]:
        progress = group.progress.get(rank) if group is not None else None
        if stall.group.startswith(STACK_GROUP) or rank in missing:
            continue
        if progress is None and not _told_by_logs(facts, stall.group):
            yield tell("no-record", rank=rank)
        elif progress is None:
            continue
        elif progress.pending is not None:
            yield tell("entered-up-to", rank=rank, enqueued=progress.enqueued, position=progress.pending.position)
        else:
            yield tell("entered-all", rank=rank, enqueued=progress.enqueued)
    if group is not None and label is not None and not group.is_default:
        yield tell("in-group", group=label)
    if stall.call is not None and stall.call.timeout_ms is not None:
        yield tell("limit", limit=stall.call.timeout_ms / 1000)


def _last_seen(facts: Facts, stall: Stall) -> Iterator[Text]:
    """Where a laggard without a stack recorded its last collective: the place named above is that call's."""
    for rank in stall.laggards[:2]:
        last = last_recorded_call(facts.ranks[rank]) if facts.ranks[rank].activity is None else None
        if last is not None and last.where is not None:
            yield tell("last-seen", rank=rank, operation=last.operation, file=last.where.file, line=last.where.line)


def _nothing_else(facts: Facts) -> Iterator[Signal]:
    """What is known of what stopped the job; it counts where no detector found anything."""
    events = timeout_events(facts)
    stuck = tuple(name for name, group in sorted(facts.groups.items()) if group.pending_calls)
    if events:
        yield _timeouts_only(facts, events)
    elif nobody_moved(facts):
        yield _nobody_progresses(facts)
    elif stuck:
        yield _pending_only(facts, stuck)
    elif _ended_otherwise(facts) or _is_idle_everywhere(facts):
        yield _ended_badly(facts)
    elif (raised := last_exception(facts)) is not None:
        yield _raised(facts, raised)


def _ended_otherwise(facts: Facts) -> bool:
    """A rank failed or was stopped, or a process did not end with 0."""
    if any(known.state in (RankState.CRASHED, RankState.STOPPED) for known in facts.ranks.values()):
        return True
    return any(exit_.exit_code not in (0, None) for exit_ in facts.exits)


def _nobody_progresses(facts: Facts) -> Signal:
    """Nobody moves and nobody is seen behind."""
    waiting = [(rank, waiting_activity(known)) for rank, known in sorted(facts.ranks.items()) if known.alive]
    if not all_wait(facts) or not waiting or waiting[0][1] is None:
        return _left(facts, tell("no-rank-moved"), ())
    activity = waiting[0][1]
    places = {a.where for _, a in waiting if a is not None}
    summary = (
        tell("all-stand-in", operation=activity.operation or activity.what) if len(places) == 1 else tell("all-wait")
    )
    evidence = tuple(a.evidence for _, a in waiting[:2] if a is not None)
    return _left(facts, summary, evidence, tell("no-positions"), waiter_where=activity.where)


def _is_idle_everywhere(facts: Facts) -> bool:
    """The recorder saw nobody move for a while, and both samples found every rank idle at one place: that is a stall,
    also where no record tells what it waits for."""
    alive = [known for known in facts.ranks.values() if known.alive]
    return any(m.stalled_since_s for m in facts.manifests) and all(
        known.moving is False and known.process_state in ("S", "D") for known in alive
    )


def _timeouts_only(facts: Facts, events: tuple[LogEvent, ...]) -> Signal:
    first = events[0]
    ranks = tuple(sorted({e.rank for e in events if e.rank is not None}))
    summary = tell("timed-out" if ranks else "some-timed-out", ranks=ranks)
    return _left(facts, summary, (Evidence(first.source, first.text, first.rank),))


def _pending_only(facts: Facts, groups: tuple[str, ...]) -> Signal:
    calls = facts.groups[groups[0]].pending_calls
    ranks, call = tuple(sorted(calls)), calls[min(calls)]
    waits = tell("waits-in", waiters=ranks, operation=numbered(operation_of(call), call.position))
    return _left(facts, tell("unfinished", waits=waits), (call.evidence,))


def _ended_badly(facts: Facts) -> Signal:
    exits = [exit_ for exit_ in facts.exits if exit_.exit_code not in (0, None)]
    return _left(facts, tell("not-well"), tuple(Evidence(e.source, e.text, e.rank) for e in exits[:2] if e.text))


def _raised(facts: Facts, raised: PythonTraceback) -> Signal:
    words = shortened(exception_line(raised).split("\n")[0], 200)
    return _left(facts, tell("exception-ended", words=words), (Evidence(exception_source(raised), words, raised.rank),))


def _left(facts: Facts, summary: Text, evidence: tuple[Evidence, ...], *because: Text, **parts: Any) -> Signal:
    seen = (tell("seen", ranks=facts.ranks_seen),) if facts.ranks_seen else ()
    return make_signal(
        Grade.EXCLUSION,
        summary,
        because=(*seen, *because),
        evidence=evidence,
        remedies=inspect_all(facts),
        **parts,
    )
