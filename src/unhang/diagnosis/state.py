"""How bad: the status of the job, and the honest finding where nothing was recognised."""

from __future__ import annotations

from dataclasses import replace

from unhang.diagnosis.context.health import Health
from unhang.evidence.items import LogEvent, PythonTraceback
from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.endings.ended_by_user import ended_by_user
from unhang.facts.endings.good_endings import good_endings
from unhang.facts.endings.stated_failures import last_exception
from unhang.facts.evidence_quotes import exception_line, exception_source
from unhang.facts.incident_features import was_seen_stuck
from unhang.facts.model import Facts, RankState
from unhang.facts.waiting.progress_from_stacks import waiting_activity
from unhang.findings import Cause, Certainty, Evidence, Finding, Severity, Status, shortened
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

# Lines that say that somebody waited for too long.
TIMEOUT_KINDS = ("wd.", "hb.", "gloo.to", "mb.one", "mb.many", "store.wait", "dump.recv", "det.")


def status_of(facts: Facts, findings: tuple[Finding, ...], health: Health) -> Status:
    """``hang`` where ranks wait or timed out, ``crash`` where a process failed and nobody waits, ``healthy`` where
    nothing is wrong and ``health`` is shown, else ``unknown``."""
    stopping = [f for f in findings if f.severity is Severity.STOPS]
    if any(f.severity is Severity.SLOWS for f in findings) and not stopping:
        return Status.SLOW
    ended = bool(stopping) and (_ended_at_once(facts) or (stopping[0].cause in _CRASHES and _all_ended_together(facts)))
    if _waiting(facts) and not ended:
        return Status.HANG
    if stopping and stopping[0].cause is not Cause.UNKNOWN:
        crashed = any(r.state is RankState.CRASHED for r in facts.ranks.values()) or primary_crashes(facts)
        seen = [known for known in facts.ranks.values() if known.state is not RankState.MISSING]
        if not crashed and all(known.alive for known in seen) and any(known.stack is not None for known in seen):
            return Status.HANG
        return Status.CRASH if crashed or stopping[0].cause in _CRASHES else Status.HANG
    if stopping:
        by_hand = ended_by_user(facts)
        waited = (_nobody_moved(facts) and _all_wait(facts)) or (by_hand is not None and by_hand.all_joined)
        return Status.HANG if waited else Status.UNKNOWN
    return Status.HEALTHY if health.proof else Status.UNKNOWN


_CRASHES = {Cause.RANK_CRASHED, Cause.GPU_OOM, Cause.HOST_MEMORY, Cause.GPU_HARDWARE, Cause.RENDEZVOUS}


def _all_ended_together(facts: Facts) -> bool:
    """Those who waited fell with the rank they waited for, before any limit passed: nothing hung."""
    left = (facts.ranks[edge.waiter] for edge in facts.graph.edges if edge.waiter in facts.ranks)
    return not timeout_events(facts) and all(known.state is RankState.ENDED_WITH_OTHERS for known in left)


def _ended_at_once(facts: Facts) -> bool:
    """Gloo ended a rank in a call that did not fit, the others fell with it, and nobody had waited until a limit."""
    seen = [known for known in facts.ranks.values() if known.state is not RankState.MISSING]
    crashed = any(known.state is RankState.CRASHED for known in seen) and gloo_sizes_differ(facts)
    return crashed and not any(known.alive for known in seen) and not timeout_events(facts)


def _waiting(facts: Facts) -> bool:
    return bool(facts.graph.edges or facts.all_joined_stalls or facts.mismatches or facts.graph.cycles) or bool(
        timeout_events(facts)
    )


def timeout_events(facts: Facts) -> tuple[LogEvent, ...]:
    """Log lines that tell of a wait that took too long."""
    return facts.events_of(*TIMEOUT_KINDS)


def unexplained_findings(facts: Facts) -> tuple[Finding, ...]:
    """No detector found what stops the job, but something stopped it; empty where nothing shows that."""
    events = timeout_events(facts)
    if events:
        return (_timeouts_only(facts, events),)
    if _nobody_moved(facts):
        return (_nobody_progresses(facts),)
    stuck = facts.stalled_groups()
    if stuck:
        return (_pending_only(facts, tuple(g.name for g in stuck)),)
    if _ended_otherwise(facts) or _is_idle_everywhere(facts):
        return (_ended_badly(facts),)
    raised = last_exception(facts)
    return (_raised(facts, raised),) if raised is not None else ()


def unproven_health(facts: Facts, health: Health) -> Finding:
    """Nothing was found, and nothing shows that the job is well; or somebody saw it stand."""
    if was_seen_stuck(facts) and not good_endings(facts).last:
        return _seen_stuck(facts)
    summary = say("nothing was found, and nothing shows that the job is well")
    found = _unknown(facts, summary, ())
    because = (*health.lacks, *found.because)
    return replace(found, severity=Severity.NOTE, because=because, remedies=(remedy("collect-health-evidence"),))


def _ended_otherwise(facts: Facts) -> bool:
    """A rank failed or was stopped, or a process did not end with 0."""
    if any(known.state in (RankState.CRASHED, RankState.STOPPED) for known in facts.ranks.values()):
        return True
    return any(exit_.exit_code not in (0, None) for exit_ in facts.exits)


ATTACH_COMMAND = "unhang attach"


def _nobody_moved(facts: Facts) -> bool:
    """``unhang attach`` sampled every rank more than once, and saw none get on."""
    looked = [manifest for manifest in facts.manifests if manifest.taken_by == ATTACH_COMMAND]
    return bool(looked) and not any(known.moving for known in facts.ranks.values() if known.alive)


def _all_wait(facts: Facts) -> bool:
    return not facts.ranks_missing and all(
        waiting_activity(known) is not None for known in facts.ranks.values() if known.alive
    )


def _nobody_progresses(facts: Facts) -> Finding:
    """Nobody moves and nobody is seen behind."""
    waiting = [(rank, waiting_activity(known)) for rank, known in sorted(facts.ranks.items()) if known.alive]
    if not _all_wait(facts) or not waiting or waiting[0][1] is None:
        summary = say("no rank got on between the looks, and nothing tells who waits for whom")
        return _unknown(facts, summary, ())
    activity = waiting[0][1]
    places = {a.where for _, a in waiting if a is not None}
    summary = (
        say("all ranks stand in {operation} and none moves", operation=activity.operation or activity.what)
        if len(places) == 1
        else say("all ranks wait and none moves; their stacks do not tell who is behind")
    )
    found = _unknown(facts, summary, tuple(a.evidence for _, a in waiting[:2] if a is not None))
    because = (
        *found.because,
        say("stacks tell no positions: one of them may be a round behind, or what carries it stopped"),
    )
    return replace(found, because=because, waiter_where=activity.where)


def _is_idle_everywhere(facts: Facts) -> bool:
    """The recorder saw nobody move for a while, and both samples found every rank idle at one place: that is a stall,
    also where no record tells what it waits for."""
    alive = [known for known in facts.ranks.values() if known.alive]
    return any(m.stalled_since_s for m in facts.manifests) and all(
        known.moving is False and known.process_state in ("S", "D") for known in alive
    )


def _timeouts_only(facts: Facts, events: tuple[LogEvent, ...]) -> Finding:
    first = events[0]
    ranks = tuple(sorted({e.rank for e in events if e.rank is not None}))
    summary = (
        say("{ranks:who} timed out; nothing that was read tells whom they waited for", ranks=ranks)
        if ranks
        else say("a collective timed out; nothing that was read tells who was missing")
    )
    return _unknown(facts, summary, (Evidence(first.source, first.text, first.rank),))


def _pending_only(facts: Facts, groups: tuple[str, ...]) -> Finding:
    call = next(p.pending for name in groups for p in facts.groups[name].progress.values() if p.pending is not None)
    summary = say(
        "work is unfinished in group {groups}, and it cannot be told whom it waits for", groups=", ".join(groups)
    )
    return _unknown(facts, summary, (call.evidence,))


def _ended_badly(facts: Facts) -> Finding:
    exits = [exit_ for exit_ in facts.exits if exit_.exit_code not in (0, None)]
    summary = say("the job did not end well, and nothing that was read tells why")
    return _unknown(facts, summary, tuple(Evidence(e.source, e.text, e.rank) for e in exits[:2] if e.text))


def _seen_stuck(facts: Facts) -> Finding:
    return _unknown(facts, say("somebody saw the job stand, and nothing that was read tells why"), ())


def _raised(facts: Facts, raised: PythonTraceback) -> Finding:
    words = shortened(exception_line(raised).split("\n")[0], 200)
    summary = say("an exception ended a process, and nothing that was read tells why: {words}", words=words)
    return _unknown(facts, summary, (Evidence(exception_source(raised), words, raised.rank),))


def _unknown(facts: Facts, summary: Text, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        Cause.UNKNOWN,
        Certainty.POSSIBLE,
        Severity.STOPS,
        summary,
        because=(say("{ranks:who} {ranks:was|were} seen", ranks=facts.ranks_seen),) if facts.ranks_seen else (),
        evidence=evidence,
        remedies=(remedy("collect-per-rank-evidence"),),
        detector="unexplained",
    )
