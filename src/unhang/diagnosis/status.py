"""How the job as a whole stands: its status, and since when it stalls."""

from __future__ import annotations

from dataclasses import replace

from unhang.diagnosis.health import proven_health, unrefuted_health
from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts, RankState
from unhang.facts.waiting.stalls import all_wait, nobody_moved
from unhang.findings import Cause, PassedCheck, Severity, Status, Verdict
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.knowledge.reasoning_rows import causes_that


def decide_status(facts: Facts, verdict: Verdict) -> Verdict:
    """Decides the status: ``hang`` where ranks wait or timed out, ``crash`` where a process failed and nobody waits,
    ``slow`` where nothing stops the job, ``healthy`` where nothing is wrong and something proves it, else ``unknown``.
    """
    findings = verdict.findings
    stopping = [f for f in findings if f.severity is Severity.STOPS]
    slowing = [f for f in findings if f.severity is Severity.SLOWS]
    if slowing and (not stopping or slowing[0] is findings[0]):
        return replace(verdict, status=Status.SLOW)
    if stopping:
        return replace(verdict, status=_status_of_stop(facts, stopping[0].cause))
    proven = verdict.health or proven_health(facts)
    if proven is not None:
        checked = tuple(PassedCheck("health", what) for what in proven.because)
        return replace(verdict, status=Status.HEALTHY, health=proven, checked=checked)
    return replace(verdict, status=Status.UNKNOWN, health=unrefuted_health(verdict))


def _status_of_stop(facts: Facts, cause: Cause) -> Status:
    crashes = causes_that("crash")
    crashed = any(r.state is RankState.CRASHED for r in facts.ranks.values()) or primary_crashes(facts)
    stays = bool(facts.manifests) and any(
        known.alive and known.state is not RankState.MISSING for known in facts.ranks.values()
    )
    fell = crashed and not stays
    ended = _ended_at_once(facts) or ((cause in crashes or fell) and _all_ended_together(facts))
    if _waiting(facts) and not ended:
        return Status.HANG
    if cause is not Cause.UNKNOWN:
        seen = [known for known in facts.ranks.values() if known.state is not RankState.MISSING]
        if not crashed and all(known.alive for known in seen) and any(known.stack is not None for known in seen):
            return Status.HANG
        return Status.CRASH if crashed or cause in crashes else Status.HANG
    by_hand = ended_by_user(facts)
    waited = (nobody_moved(facts) and all_wait(facts)) or (by_hand is not None and by_hand.all_joined)
    return Status.HANG if waited else Status.UNKNOWN


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


def date_stall(facts: Facts, verdict: Verdict) -> Verdict:
    """Says since when the first waiter has waited; of a job that is well, nothing."""
    well = verdict.status is Status.HEALTHY or verdict.health is not None
    return verdict if well else replace(verdict, stalled_since=_stalled_since(facts))


def _stalled_since(facts: Facts) -> str | None:
    """When the first waiter entered the call it is still in, as dumps or logs tell; None otherwise.

    ISO 8601 (UTC) where the evidence counts from the epoch or names its zone; else without a zone, and without a year
    where no line has one.
    """
    stalled = {stall.group for stall in facts.stalls} | {s.group for s in facts.all_joined_stalls}
    stalled |= {d.group for d in facts.mismatches}
    began = [
        (progress.pending.since_s, progress.pending.since_form)
        for name in stalled
        for progress in facts.groups[name].progress.values()
        if progress.pending is not None and progress.pending.since_s
    ]
    if not any(form is TimeForm.ZONE for _, form in began):
        began += [(m.stalled_since_s, TimeForm.ZONE) for m in facts.manifests if m.stalled_since_s]
    logged = logged_waits(facts)
    if not began and logged is not None and logged.first_wait is not None and logged.first_wait.since_s:
        began = [(logged.first_wait.since_s, logged.first_wait.time_form)]
    if not began:
        return None
    # the clocks of lines without a zone stand elsewhere: these are not compared with the others
    most = max(form for _, form in began)
    first_s = min(since_s for since_s, form in began if form is most)
    return time_text(first_s, most) or None
