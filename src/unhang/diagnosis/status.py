"""How the job as a whole stands: whether it is shown to be well, its status, and since when it stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from unhang.diagnosis.severity import place_among_notes
from unhang.evidence.items import LogEnding, Progress
from unhang.evidence.logs.lines.prefixes import is_cpp_error
from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.endings.good_endings import StatedEndings, good_endings
from unhang.facts.incident_features import was_seen_stuck
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.last_log_lines import phase_of_line
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.model import Facts, RankFacts, RankState
from unhang.facts.waiting.stalls import all_wait, nobody_moved
from unhang.facts.world_size import is_world_size_stated
from unhang.findings import (
    Cause,
    Certainty,
    Finding,
    PassedCheck,
    Phase,
    Severity,
    Status,
    Verdict,
    shortened,
)
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.knowledge.reasoning_rows import causes_that
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

ENDED, SAID, MOVES, STEPS = "ended", "said", "moves", "steps"
_NOT_WELL = (RankState.CRASHED, RankState.STOPPED, RankState.ENDED_WITH_OTHERS)


@dataclass(frozen=True, slots=True)
class _Health:
    """``proof``: what shows that every rank is well; empty where it is not shown, and then ``lacks`` says why."""

    proof: tuple[Text, ...]
    lacks: tuple[Text, ...] = ()


def doubt_health(facts: Facts, verdict: Verdict) -> Verdict:
    """Says in an ``unknown`` note that nothing was found, where nothing shows that the job is well.

    Silence is never health: every rank of a known world needs something positive. A rank is well when it ended with 0
    or said that its work was done, when a sample of the living job saw it move, or when its steps advance to the very
    end of what was read, beside those of all others; or when a launcher or a scheduler tells of all that they ended
    well. A job that stalls a minute later shows such steps too, so whatever could not be read leaves the first alone.
    """
    if any(finding.severity is not Severity.NOTE for finding in verdict.findings):
        return verdict
    health = _health_of(facts)
    if health.proof:
        return verdict
    return replace(verdict, findings=place_among_notes(facts, _unproven(facts, health), verdict.findings))


def _health_of(facts: Facts) -> _Health:
    stated = good_endings(facts)
    if stated.whole is not None and not any(known.state in _NOT_WELL for known in facts.ranks.values()):
        doubts = tuple(_doubts(facts))
        return _Health((), doubts) if doubts else _Health((_ending_text(stated.whole),))
    if facts.world_size is None or not is_world_size_stated(facts):
        return _Health((), (say("how many ranks the job has is not known"),))
    shown = {rank: _shown_by(known, facts, stated) for rank, known in facts.ranks.items()}
    open_ranks = [rank for rank in range(facts.world_size) if shown.get(rank) is None]
    if open_ranks:
        return _Health((), tuple(_lacking(open_ranks, facts)))
    looks = {_sample_count(facts.ranks[rank]) for rank, how in shown.items() if how == MOVES}
    if len(looks) > 1 or 0 in looks:
        return _Health((), (say("some ranks were looked at less often than others"),))
    by_steps = [rank for rank, how in shown.items() if how == STEPS]
    if facts.unread and not set(shown.values()) <= {ENDED, SAID}:
        return _Health((), (say("some of what was given could not be read"),))
    loops = [_loop_of(facts.ranks[rank]) for rank in by_steps]
    if by_steps and not (_side_by_side(loops) and _all_came_as_far(facts, shown)):
        return _Health((), (say("the last steps of the ranks differ"),))
    return _Health(tuple(_proof(shown)))


def _doubts(facts: Facts) -> Iterable[Text]:
    """What no line explains, and a good end does not either: processes that were started again, errors of torch."""
    restarts = facts.events_where(lambda row: row.says == "restart")
    if any(event.values.get("attempt") != 0 for event in restarts):
        yield say("processes had failed and were started again; no line that was read says why")
    error = next((line for log in facts.logs for line in log.unrecognized_failures if is_cpp_error(line.text)), None)
    if error is not None:
        yield say("torch printed an error that is not known: {line}", line=shortened(error.text.strip(), 120))


def _shown_by(known: RankFacts, facts: Facts, stated: StatedEndings) -> str | None:
    if not known.alive:
        return ENDED if known.ended_well else None
    if known.state in _NOT_WELL:
        return None
    if (told := stated.ranks.get(known.rank)) is not None:
        return SAID if told.words else ENDED
    if known.state is RankState.MISSING:
        return None
    if known.moving or (facts.manifests and _planned(known)):
        return MOVES
    return STEPS if known.moving is None and _stepped_to_the_end(known) else None


def _ending_text(ending: LogEnding) -> Text:
    place = f"{ending.source.path.rsplit('/', 1)[-1]}:{ending.source.line}"
    return say("all ranks ended well, by {place}: {line}", place=place, line=shortened(ending.text.strip(), 120))


def _planned(known: RankFacts) -> bool:
    """It waits where its program says that it will: in a guard, with somebody named."""
    return known.process.guard_wait is not None and bool(known.process.guard_wait.ranks)


def _sample_count(known: RankFacts) -> int:
    """How often its stack was seen. Of a bundle that lost a file, what that would tell is not known."""
    stacks = (known.stack, *known.earlier_stacks)
    return sum(any(thread.frames for thread in stack.threads) for stack in stacks if stack is not None)


def _loop_of(known: RankFacts) -> Progress | None:
    """The counter that the rank's log shows last."""
    loops = [p for p in known.progress if not is_preparing(p) and p.last_step > p.first_step]
    return max(loops, key=lambda p: p.last_line, default=None)


def _stepped_to_the_end(known: RankFacts) -> bool:
    loop, last = _loop_of(known), known.last_line
    if loop is None or last is None or last.source.path != loop.source.path or known.last_line_followed:
        return False
    if loop.repeated and not _is_through(loop):
        return False
    return last.source.line == loop.last_line or phase_of_line(last.text) is Phase.SHUTDOWN


def _side_by_side(loops: Iterable[Progress | None]) -> bool:
    """No rank's last step is further behind than the steps between two lines; where one is through, all are."""
    known = [loop for loop in loops if loop is not None]
    last = [loop.last_step for loop in known]
    if len({loop.total for loop in known}) > 1 or len({_is_through(loop) for loop in known}) > 1:
        return False
    apart = [loop.recent[-1][0] - loop.recent[-2][0] if len(loop.recent) > 1 else 1 for loop in known]
    return max(last) - min(last) <= max(apart)


def _all_came_as_far(facts: Facts, shown: Mapping[int, str | None]) -> bool:
    """Where some have ended, those that only step must have come as far: else they wait for who left."""
    if ENDED not in shown.values() and SAID not in shown.values():
        return True
    loops = [_loop_of(facts.ranks[rank]) if rank in facts.ranks else None for rank in shown]
    if None not in loops and len({loop.last_step for loop in loops if loop is not None}) == 1:
        return True
    return all(_is_through(loop) for loop, how in zip(loops, shown.values(), strict=True) if loop and how == STEPS)


def _is_through(loop: Progress) -> bool:
    return loop.total is not None and loop.last_step + 1 >= loop.total


def _proof(shown: Mapping[int, str | None]) -> Iterable[Text]:
    ranks = {how: [rank for rank, by in shown.items() if by == how] for how in Counter(shown.values())}
    if ended := ranks.get(ENDED):
        yield say("{ranks:who} ended with exit code 0", ranks=ended)
    if said := ranks.get(SAID):
        yield say("{ranks:who} said that their work was done", ranks=said)
    if moves := ranks.get(MOVES):
        yield say("{ranks:who} moved while the job was looked at", ranks=moves)
    if steps := ranks.get(STEPS):
        yield say("the steps of {ranks:who} advance to the end of what was read", ranks=steps)


def _lacking(ranks: list[int], facts: Facts) -> Iterable[Text]:
    silent = [rank for rank in ranks if rank not in facts.ranks or facts.ranks[rank].state is RankState.MISSING]
    if silent:
        yield say("nothing was read of {ranks:who}", ranks=silent)
    heard = set(ranks) - set(silent)
    others = [rank for rank in ranks if rank in heard]
    if others:
        yield say("of {ranks:who} neither an end nor steps up to the end of what was read were seen", ranks=others)


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
    proof = verdict.checked or tuple(PassedCheck("health", said) for said in _health_of(facts).proof)
    return replace(verdict, status=Status.HEALTHY if proof else Status.UNKNOWN, checked=proof)


def _status_of_stop(facts: Facts, cause: Cause) -> Status:
    crashes = causes_that("crash")
    ended = _ended_at_once(facts) or (cause in crashes and _all_ended_together(facts))
    if _waiting(facts) and not ended:
        return Status.HANG
    if cause is not Cause.UNKNOWN:
        crashed = any(r.state is RankState.CRASHED for r in facts.ranks.values()) or primary_crashes(facts)
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


def _unproven(facts: Facts, health: _Health) -> Finding:
    """Nothing was found, and nothing shows that the job is well; or somebody saw it stand."""
    stood = was_seen_stuck(facts) and not good_endings(facts).last
    seen = (say("{ranks:who} {ranks:was|were} seen", ranks=facts.ranks_seen),) if facts.ranks_seen else ()
    return Finding(
        Cause.UNKNOWN,
        Certainty.POSSIBLE,
        Severity.STOPS if stood else Severity.NOTE,
        say("somebody saw the job stand, and nothing that was read tells why")
        if stood
        else say("nothing was found, and nothing shows that the job is well"),
        because=seen if stood else (*health.lacks, *seen),
        remedies=(remedy("collect-per-rank-evidence" if stood else "collect-health-evidence"),),
        detector="health",
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
