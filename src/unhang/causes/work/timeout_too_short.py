"""timeout-too-short: a legitimate operation outlasts the limit, or the limit the user set is not the one in force.

What happens: one rank does planned work that ends, but the other ranks' limit passes first. Such work may be a save, an
evaluation that the program marked (`unhang.phase`), or the longest answer of a rank that generates text.
Why it hangs: the limit counts from the moment a rank enters the collective, however good the late rank's reason is.
Example: rank 0 saves for 12 minutes, the limit is 10; rank 0 then enters the same collective and finds it closed. Or
`--ddp_timeout 180000` in the command and `Timeout(ms)=1800000` in the watchdog's line: the setting did not reach the
group.
Fix: a limit that covers the longest planned work (`init_process_group(timeout=…)`, per group), or shorter work.
Certain when: after the other ranks' timeout the late rank is seen entering the very same call with its work done; or
the program marks the work with a bound beyond the limit, and the limit is near or has passed.
Likely when: the work that is seen would have ended within the limit that was meant; a mark has no bound; or some ranks
still generate while others are done.
A monitor's limit counts as well: a health check that a busy or compiling engine cannot answer in time.
Possible when: only the printed limit is remarkably small, or is not the one that was set.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.wording.signals import stall_signal
from unhang.facts.endings.given_up import given_up
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.laggard.planned_work import MarkedWorkBeyondLimit, bounded_work, marked_work_beyond_limit
from unhang.facts.laggard.uneven_generation import LongerGeneration, longer_generation_printed
from unhang.facts.laggard.work_in_lines import spanning_work
from unhang.facts.logs.log_statements import quote_event, quote_events
from unhang.facts.model import Facts, Stall
from unhang.facts.waiting.timeouts import LateArrival, late_arrivals, limit_not_in_force, tiny_limits
from unhang.findings import Cause, Grade, Phase, Remedy
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

CAUSE = Cause.TIMEOUT_TOO_SHORT
tell = Sentences("causes/timeout-too-short.toml")
# torch's own limit is 600 s (NCCL) or 1800 s (Gloo); a shorter one was chosen by somebody. At the default and above,
# work that outlasts the limit is named as such: single-rank-work.
DEFAULT_LIMIT_S = 600.0
_SPARE = 1.5
"""A limit should be so many times longer than the longest planned work."""


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Each way to see it, once."""
    for look in (_late_arrival, _cut_by_limit, _tiny, _marked, _generation, _not_in_force, _given_up):
        told = look(facts)
        if told is not None:
            yield told


def _late_arrival(facts: Facts) -> Signal | None:
    """Ranks that reached the call after the others had given up."""
    late = late_arrivals(facts)
    if late is None:
        return None
    return make_signal(
        Grade.STATED,
        tell("late" if late.limit_s is None else "late-by-limit", ranks=late.ranks, limit=late.limit_s),
        whole=late.late_by_s is not None,
        ranks=late.ranks,
        where=late.where,
        waiter_where=late.waiter_where,
        because=tuple(_why_late(late)),
        evidence=late.evidence,
        remedies=(remedy("raise-timeout-for-work"),),
    )


def _why_late(late: LateArrival) -> Iterator[Text]:
    yield tell("gave-up-first", waiters=late.waiters, ranks=late.ranks)
    if late.late_by_s is not None:
        yield tell("planned-and-ended", late=late.late_by_s)


def _cut_by_limit(facts: Facts) -> Signal | None:
    """Planned work that was on its way to its end when a limit below torch's own passed."""
    bounded = ((stall, work) for stall in facts.stalls if (work := bounded_work(facts, stall)) is not None)
    stall, work = next((one for one in bounded if one[1].limit_s < DEFAULT_LIMIT_S), (None, None))
    if stall is None or work is None:
        return None
    return stall_signal(
        Grade.ORDER,
        tell("planned-work", ranks=stall.laggards, done=work.done, total=work.total, limit=work.limit_s),
        facts,
        stall,
        where=work.where,
        because=(tell("counted-on", ranks=stall.laggards), tell("limit-below-default", limit=work.limit_s)),
        evidence=(work.evidence, work.timeout),
        remedies=(remedy("raise-timeout-for-work"),),
    )


def _tiny(facts: Facts) -> Signal | None:
    tiny = tiny_limits(facts)
    if tiny is None:
        return None
    limit_s, evidence = tiny
    return make_signal(
        Grade.STATED,
        tell("limit-below-step", limit=limit_s),
        whole=limit_s < 1,
        because=(tell("limit-printed", limit=limit_s),),
        evidence=(evidence,),
        remedies=(remedy("raise-timeout-for-work"),),
    )


def _marked(facts: Facts) -> Signal | None:
    """Marked work that the others' limit does not cover, where that limit is near or has passed."""
    outlasting = (
        (stall, found) for stall in facts.stalls if (found := marked_work_beyond_limit(facts, stall)) is not None
    )
    stall, found = next(outlasting, (None, None))
    if stall is None or found is None:
        return None
    return stall_signal(
        Grade.RECORD,
        tell(
            "mark-passed" if found.until_limit_s is None else "mark-running",
            rank=found.rank,
            label=found.work.label,
            limit=found.limit_s,
        ),
        facts,
        stall,
        whole=found.work.at_most_s is not None,
        ranks=(found.rank,),
        phase=Phase(found.work.phase) if found.work.phase in {phase.value for phase in Phase} else None,
        because=tuple(_why_marked(stall, found)),
        evidence=found.evidence,
        remedies=(_longer_than_mark(found),),
    )


def _why_marked(stall: Stall, found: MarkedWorkBeyondLimit) -> Iterator[Text]:
    work = found.work
    if work.at_most_s is not None:
        yield tell("mark-bounded", label=work.label, allowed=work.at_most_s, gone=work.gone_s)
    else:
        yield tell("mark-unbounded", label=work.label, gone=work.gone_s)
    if found.until_limit_s is not None:
        yield tell("limit-passes-in", waiters=stall.direct_waiters, left=found.until_limit_s)


def _longer_than_mark(found: MarkedWorkBeyondLimit) -> Remedy:
    at_most_s = found.work.at_most_s if found.work.at_most_s is not None else 2 * found.limit_s
    minutes = max(1, -(-int(at_most_s * _SPARE) // 60))
    return remedy("raise-timeout-above-mark", seconds=minutes * 60, minutes=minutes)


def _generation(facts: Facts) -> Signal | None:
    """One rank's answers are longer than the others': from stacks where there are any, else from what was printed."""
    seen = next((generates for _, generates in laggards_doing(facts, LongerGeneration)), None)
    found = seen or longer_generation_printed(facts)
    if found is None:
        return None
    return make_signal(
        Grade.STACK if found.seen else Grade.ORDER,
        tell("generates" if found.ranks else "others-generate", ranks=found.ranks, waiters=found.waiters),
        ranks=found.ranks,
        phase=Phase.EVAL,
        where=found.where,
        waiter_where=found.waiter_where,
        because=tuple(_why_longer(found)),
        evidence=found.evidence,
        remedies=(
            remedy("limit-generation-length"),
            remedy("generate-with-vllm"),
            remedy("raise-timeout-for-generation"),
        ),
    )


def _why_longer(found: LongerGeneration) -> Iterator[Text]:
    yield tell("in-function" if found.seen else "gave-up-in", waiters=found.waiters, function=found.function)
    yield tell("own-prompts")
    if found.limit_s is not None:
        yield tell("limit", limit=found.limit_s)


def _given_up(facts: Facts) -> Signal | None:
    """A monitor ended a process that had not answered it in time, and that worked."""
    found = given_up(facts)
    if found is None:
        return None
    limit = () if found.limit_s is None else (tell("answer-limit", limit=found.limit_s),)
    return make_signal(
        Grade.ORDER,
        tell("monitor-ended" if found.target else "monitor-ended-one", target=found.target, count=len(found.checks)),
        whole=found.worked is not None,
        because=(*limit, tell("worked-meanwhile") if found.worked is not None else tell("work-not-seen")),
        evidence=(*quote_events(found.checks)[:2], quote_event(found.ended), *filter(None, (found.worked,))),
        remedies=(remedy("raise-answer-limit"),),
    )


def _not_in_force(facts: Facts) -> Signal | None:
    """A longer limit was set than the one that passed."""
    limit = limit_not_in_force(facts)
    if limit is None:
        return None
    working = spanning_work(facts) is not None
    return make_signal(
        Grade.ORDER,
        tell("limit-not-wanted", passed=limit.passed_s, wanted=limit.set_s, name=limit.name),
        whole=working,  # else the two limits may belong to different groups
        because=(tell("setting-not-reached"), *((tell("would-have-ended"),) if working else ())),
        evidence=limit.evidence,
        remedies=(remedy("set-timeout-at-init"),),
    )
