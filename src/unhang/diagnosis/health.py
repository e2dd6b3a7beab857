"""Whether the job is shown to be well; where nothing is wrong and nothing proves it, how far the job came, who was not
seen, and the one command that would prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

from unhang.causes.wording.next_steps import see_whether_it_ended, watch_moving_job
from unhang.diagnosis.gaps import absent_ranks
from unhang.diagnosis.severity import place_among_notes
from unhang.evidence.items import LogEnding, LogReading, Progress
from unhang.evidence.logs.lines.prefixes import is_cpp_error
from unhang.facts.endings.good_endings import StatedEndings, good_endings, last_attempt
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.incident_features import was_seen_stuck
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.model import Facts, RankFacts, RankState, once
from unhang.facts.pace.step_slowdown import TRAINER_LINES, few_slower_steps, paces
from unhang.facts.pace.straggler import may_be_waited_for
from unhang.facts.world_size import is_world_size_stated
from unhang.findings import Cause, Certainty, Evidence, Finding, Health, Remedy, Severity, Verdict
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, message_of_line, say

_NOT_WELL = (RankState.CRASHED, RankState.STOPPED, RankState.ENDED_WITH_OTHERS)
EXITED, LEFT, MOVES = "exited", "left", "moves"


def doubt_health(facts: Facts, verdict: Verdict) -> Verdict:
    """Says in an ``unknown`` note how far the job came and who was not seen, where nothing proves that it is well.

    Silence is never health, and a rank that announces its end may hang in its save, a barrier or its destroy, or leave
    others that do. A proof comes from after the last collective: a launcher or scheduler says that all ended well,
    every rank of a known world ended with 0 or left its process group, or a look at the living job saw each move.
    """
    if any(finding.severity is not Severity.NOTE for finding in verdict.findings) or proven_health(facts) is not None:
        return verdict
    return replace(verdict, findings=place_among_notes(facts, _unproven(facts), verdict.findings))


@once
def proven_health(facts: Facts) -> Health | None:
    """What proves that every rank is well; None where nothing does."""
    lost = any(item.lost for item in facts.unread)
    stated = StatedEndings() if lost or next(_unexplained_lines(facts), None) is not None else good_endings(facts)
    failed = any(known.state in _NOT_WELL for known in facts.ranks.values())  # in the first attempt
    if stated.whole is not None and (last_attempt(facts) or not failed):
        return Health(Certainty.CERTAIN, (_ending_text(stated.whole),))
    if facts.world_size is None or not is_world_size_stated(facts):
        return None
    shown = {rank: _shown_by(known, facts, stated) for rank, known in facts.ranks.items()}
    if any(shown.get(rank) is None for rank in range(facts.world_size)):
        return None
    looks = {_sample_count(facts.ranks[rank]) for rank, how in shown.items() if how == MOVES}
    if len(looks) > 1 or 0 in looks or lost or (looks and (facts.unread or next(_slow(facts), None) is not None)):
        return None
    return Health(Certainty.LIKELY if looks else Certainty.CERTAIN, tuple(_proof(facts, shown)))


def _slow(facts: Facts) -> Iterator[Text]:
    """What speaks against a job whose ranks move: they may all wait for one of them, or steps take longer than before.

    Whoever waits in a guard waits by plan."""
    if not any(known.alive and known.moving for known in facts.ranks.values()):
        return
    least = facts.least_waiting
    if least is not None and may_be_waited_for(least) and not any(map(_planned, facts.ranks.values())):
        yield say(
            "the others may be waiting for rank {rank}: in {looks} samples it waited {waited} times, "
            "every other rank at least {others} times",
            **least._asdict(),
        )
    if (slower := facts.all_slower) is not None:
        before_s, now_s = slower.change.before_s, slower.change.since_s
        yield say("{unit} times grew from {before:.2g} s to {now:.2g} s", unit="step", before=before_s, now=now_s)
    loops = (loop for log in facts.logs for loop in log.progress if not is_preparing(loop))
    for loop in loops:
        if (grown := few_slower_steps(loop)) is not None:
            yield say("{unit} times grew from {before:.2g} s to {now:.2g} s", unit=_unit(loop), **grown._asdict())


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
    return say("all ranks ended well: {line} ({place})", place=place, line=message_of_line(ending.text.strip(), 120))


def _planned(known: RankFacts) -> bool:
    """It waits where its program says that it will: in a guard, with somebody named."""
    return known.process.guard_wait is not None and bool(known.process.guard_wait.ranks)


def _sample_count(known: RankFacts) -> int:
    """How often its stack was seen. Of a bundle that lost a file, what that would tell is not known."""
    stacks = (known.stack, *known.earlier_stacks)
    return sum(any(thread.frames for thread in stack.threads) for stack in stacks if stack is not None)


def _proof(facts: Facts, shown: Mapping[int, str | None]) -> Iterable[Text]:
    ranks = {how: [rank for rank, by in shown.items() if by == how] for how in Counter(shown.values())}
    if exited := ranks.get(EXITED):
        yield say("{ranks:who} ended with exit code 0", ranks=exited)
    if left := ranks.get(LEFT):
        yield say("{ranks:who} destroyed {ranks:its|their} process group", ranks=left)
    if moves := ranks.get(MOVES):
        yield say("{ranks:who} made progress while the job was sampled", ranks=moves)
    if moves and facts.least_waiting is not None:
        yield say("in {looks} samples, no rank kept the others waiting", looks=facts.least_waiting.looks)


# ---------------------------------------------------------------------------------------------------
# not proven

_NO_PROBLEM = "no-problem"
_COUNTED = ("step", "iter", "iteration", "batch", "epoch", "update")


@dataclass(frozen=True, slots=True)
class _Reached:
    """How far the job came: the loop that was counted last, in its log, and the ranks that counted as far."""

    log: LogReading
    loop: Progress
    ranks: tuple[int, ...]

    @property
    def step(self) -> str:
        return f"{_unit(self.loop)} {self.loop.last_step}" + (f"/{self.loop.total}" if self.loop.total else "")

    @property
    def is_through(self) -> bool:
        return self.loop.total is not None and self.loop.last_step + 1 >= self.loop.total


def _unit(loop: Progress) -> str:
    return loop.unit if loop.unit in _COUNTED else "step"


def _unproven(facts: Facts) -> Finding:
    """What was read, and what is missing from it; or that somebody saw the job stand."""
    if was_seen_stuck(facts) and not good_endings(facts).last:
        summary = say("somebody reports that the job is stuck; no line says why")
        seen = (say("{ranks:who} {ranks:was|were} seen", ranks=facts.ranks_seen),) if facts.ranks_seen else ()
        remedies = (remedy("collect-per-rank-evidence"),)
        return Finding(Cause.UNKNOWN, Certainty.POSSIBLE, Severity.STOPS, summary, (), because=seen, remedies=remedies)
    reached = _reached(facts)
    doubts = (*_unexplained_lines(facts), *_slow(facts))
    if facts.unread:
        doubts += (say("part of the input could not be read"),)
    summary, *rest = (*doubts, _how_far(facts, reached))
    return Finding(
        Cause.UNKNOWN,
        Certainty.POSSIBLE,
        Severity.NOTE,
        summary,
        because=(*rest, *_last_seen(facts, reached), *_not_seen(facts)),
        evidence=(*((quote_progress(reached.loop),) if reached is not None else ()), *_last_of_silent(facts)),
        remedies=(_proof_to_get(facts, reached),),
        detector="health" if doubts else _NO_PROBLEM,
    )


def unrefuted_health(verdict: Verdict) -> Health | None:
    """What speaks for a job in which no problem was found; None where something stands against it."""
    lead = next(iter(verdict.findings), None)
    return Health(Certainty.POSSIBLE, (lead.summary,)) if lead is not None and lead.detector == _NO_PROBLEM else None


def _unexplained_lines(facts: Facts) -> Iterator[Text]:
    """What no line explains, and a good end does not either: processes that were started again, errors of torch."""
    restarts = facts.events_where(lambda row: row.says == "restart")
    if not facts.tracebacks and any(event.values.get("attempt") != 0 for event in restarts):
        yield say("processes failed and were restarted; no line says why")
    error = next((line for log in facts.logs for line in log.unrecognized_failures if is_cpp_error(line.text)), None)
    if error is not None:
        yield say("torch printed an unknown error: {line}", line=message_of_line(error.text.strip(), 120))


def _reached(facts: Facts) -> _Reached | None:
    loops = [
        (log, loop)
        for log in facts.logs
        for loop in log.progress
        if (loop.total or loop.last_step > loop.first_step) and not is_preparing(loop) and loop.unit != TRAINER_LINES
    ]
    if not loops:
        return None
    log, last = max(loops, key=lambda at: (at[1].attempt, bool(at[1].total), at[1].last_step, at[1].last_line))
    as_far = {p.rank for _, p in loops if p.last_step == last.last_step and p.rank is not None}
    return _Reached(log, last, tuple(sorted(as_far)))


def _how_far(facts: Facts, reached: _Reached | None) -> Text:
    stated, others = good_endings(facts), _silent_at_the_end(facts)
    if others:
        ended = tuple(sorted(stated.ranks))
        return say(
            "{ranks:who} reported {ranks:its|their} end; {others} did not",
            ranks=ended,
            others=say("{ranks:who}", ranks=others),
        )
    ranks = tuple(sorted(stated.ranks)) or (reached.ranks if reached is not None else ())
    if reached is None and not stated.last:
        if facts.logs:
            return say("no known error in the log, which shows no steps")
        return say("no known error was found")
    if reached is None:
        if ranks:
            return say("{ranks:who} reported {ranks:its|their} end", ranks=ranks)
        return say("the job reported its end")
    if not stated.last:
        if ranks:
            return say("{ranks:who} reached {step}, with no known error before it", ranks=ranks, step=reached.step)
        return say("the job reached {step}, with no known error before it", step=reached.step)
    if ranks:
        return say("{ranks:who} reached {step} and reported {ranks:its|their} end", ranks=ranks, step=reached.step)
    return say("the job reached {step} and reported its end", step=reached.step)


def _last_seen(facts: Facts, reached: _Reached | None) -> Iterable[Text]:
    """When the last line of a job came whose end is not reported, and how long its steps take."""
    if reached is None or good_endings(facts).last:
        return
    clock = _last_clock(reached)
    took = [seconds for _, seconds in paces(reached.loop)]
    if took:
        yield say("a step took {seconds} s", seconds=f"{median(took):.3g}")
    if clock and not reached.is_through:
        yield say("the log ends at {time}: if nothing came for minutes after that, the job is stuck", time=clock)
    elif clock:
        yield say("the log ends at {time}", time=clock)


def _last_clock(reached: _Reached) -> str:
    """The time of the last line as it is printed there; empty where it has none, or another clock than was read."""
    said = [(line.text, line.time_s) for line in reached.log.said]
    timed = ((text, time_s) for text, time_s in reversed(said) if time_s is not None)
    text, time_s = next(timed, (reached.loop.last_text, reached.loop.last_time_s))
    clock = time_text(time_s, TimeForm.YEAR)[-8:] if time_s is not None else ""
    return clock if clock in text else ""


def _not_seen(facts: Facts) -> Iterator[Text]:
    if next(absent_ranks(facts), None) is not None:
        return  # which could not be checked
    if facts.world_size is None and facts.logs:
        yield say("the log does not say how many ranks ran")
    elif facts.ranks_missing and not facts.ranks_seen:
        yield say("no line names its rank; the job has {world} ranks", world=facts.world_size)


def _silent_at_the_end(facts: Facts) -> list[int]:
    """The ranks of which something was read, but not that they ended, where others say that they did."""
    ended = good_endings(facts).ranks
    seen = [rank for rank, known in facts.ranks.items() if known.state is not RankState.MISSING]
    return sorted(set(seen).difference(ended)) if ended else []


def _last_of_silent(facts: Facts) -> Iterator[Evidence]:
    """What the first of them said last."""
    for rank in _silent_at_the_end(facts)[:2]:
        last = facts.ranks[rank].last_line
        if last is not None:
            yield last


def _proof_to_get(facts: Facts, reached: _Reached | None) -> Remedy:
    if next(_slow(facts), None) is not None:
        return remedy("look-longer")
    if not facts.logs and not facts.manifests:
        return remedy("collect-health-evidence")
    over = bool(good_endings(facts).last) or (reached is not None and reached.is_through)
    return see_whether_it_ended(facts) if over and not _silent_at_the_end(facts) else watch_moving_job(facts)
