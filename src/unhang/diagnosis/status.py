"""How the job as a whole stands: whether it is shown to be well, its status, and since when it stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from unhang.diagnosis.severity import place_among_notes
from unhang.diagnosis.unproven_health import unexplained_lines, unproven_health, unrefuted_health
from unhang.evidence.items import LogEnding
from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.endings.good_endings import StatedEndings, good_endings
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.model import Facts, RankFacts, RankState, once
from unhang.facts.waiting.stalls import all_wait, nobody_moved
from unhang.facts.world_size import is_world_size_stated
from unhang.findings import (
    Cause,
    Certainty,
    Health,
    PassedCheck,
    Severity,
    Status,
    Verdict,
)
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.knowledge.reasoning_rows import causes_that
from unhang.sentences import Text, say, shortened

_NOT_WELL = (RankState.CRASHED, RankState.STOPPED, RankState.ENDED_WITH_OTHERS)
EXITED, LEFT, MOVES = "exited", "left", "moves"


def doubt_health(facts: Facts, verdict: Verdict) -> Verdict:
    """Says in an ``unknown`` note how far the job came and who was not seen, where nothing proves that it is well.

    Silence is never health, and a rank that announces its end may hang in its save, a barrier or its destroy, or leave
    others that do. A proof comes from after the last collective: a launcher or scheduler says that all ended well,
    every rank of a known world ended with 0 or left its process group, or a look at the living job saw each move.
    """
    if any(finding.severity is not Severity.NOTE for finding in verdict.findings) or _proven_health(facts) is not None:
        return verdict
    return replace(verdict, findings=place_among_notes(facts, unproven_health(facts), verdict.findings))


@once
def _proven_health(facts: Facts) -> Health | None:
    lost = any(item.lost for item in facts.unread)
    stated = StatedEndings() if lost or next(unexplained_lines(facts), None) is not None else good_endings(facts)
    if stated.whole is not None and not any(known.state in _NOT_WELL for known in facts.ranks.values()):
        return Health(Certainty.CERTAIN, (_ending_text(stated.whole),))
    if facts.world_size is None or not is_world_size_stated(facts):
        return None
    shown = {rank: _shown_by(known, facts, stated) for rank, known in facts.ranks.items()}
    if any(shown.get(rank) is None for rank in range(facts.world_size)):
        return None
    looks = {_sample_count(facts.ranks[rank]) for rank, how in shown.items() if how == MOVES}
    if len(looks) > 1 or 0 in looks or lost or (looks and facts.unread):
        return None
    return Health(Certainty.LIKELY if looks else Certainty.CERTAIN, tuple(_proof(shown)))


def _shown_by(known: RankFacts, facts: Facts, stated: StatedEndings) -> str | None:
    if not known.alive:
        return EXITED if known.ended_well else None
    if known.state in _NOT_WELL:
        return None
    if (ending := stated.ranks.get(known.rank)) is not None and not ending.words:
        return LEFT if ending.who == "group" else EXITED
    if known.state is RankState.MISSING:
        return None
    return MOVES if known.moving or (facts.manifests and _planned(known)) else None


def _ending_text(ending: LogEnding) -> Text:
    place = f"{ending.source.path.rsplit('/', 1)[-1]}:{ending.source.line}"
    return say("all ranks ended well: {line} ({place})", place=place, line=shortened(ending.text.strip(), 120))


def _planned(known: RankFacts) -> bool:
    """It waits where its program says that it will: in a guard, with somebody named."""
    return known.process.guard_wait is not None and bool(known.process.guard_wait.ranks)


def _sample_count(known: RankFacts) -> int:
    """How often its stack was seen. Of a bundle that lost a file, what that would tell is not known."""
    stacks = (known.stack, *known.earlier_stacks)
    return sum(any(thread.frames for thread in stack.threads) for stack in stacks if stack is not None)


def _proof(shown: Mapping[int, str | None]) -> Iterable[Text]:
    ranks = {how: [rank for rank, by in shown.items() if by == how] for how in Counter(shown.values())}
    if exited := ranks.get(EXITED):
        yield say("{ranks:who} ended with exit code 0", ranks=exited)
    if left := ranks.get(LEFT):
        yield say("{ranks:who} destroyed {ranks:its|their} process group", ranks=left)
    if moves := ranks.get(MOVES):
        yield say("{ranks:who} moved while the job was looked at", ranks=moves)


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
    planned = Health(Certainty.LIKELY, tuple(check.what for check in verdict.checked)) if verdict.checked else None
    proven = planned or _proven_health(facts)
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
    """Says since when the first waiter has waited."""
    return replace(verdict, stalled_since=_stalled_since(facts))


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
    if not began:
        return None
    # the clocks of lines without a zone stand elsewhere: these are not compared with the others
    most = max(form for _, form in began)
    first_s = min(since_s for since_s, form in began if form is most)
    return time_text(first_s, most) or None
