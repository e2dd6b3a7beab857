"""timeout-too-short: a legitimate operation outlasts the limit, or the limit the user set is not the one in force.

What happens: one rank does planned work that ends; the others' limit passed before it ended.
Why it hangs: the limit counts from the moment a rank enters the collective, however good the reason of the others is.
Example: rank 0 saves for 12 minutes, the limit is 10; rank 0 then enters the same collective and finds it closed.
Fix: a limit that fits the longest planned work (`init_process_group(timeout=…)`, per group), or a shorter work.
Certain when: after the others' timeout the late rank is seen entering the very same call, its work done.
Possible when: only the limit printed is remarkably small.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.late_arrivals import LateArrival, late_arrivals, tiny_limits
from unhang.facts.model import Facts, Stall
from unhang.facts.planned_work import PlannedWork, planned_work
from unhang.findings import Cause, Certainty, Evidence, Remedy, RemedyKind, Text, say
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, quote_traceback
from unhang.rules.rule import Answer, finding

CAUSE = Cause.TIMEOUT_TOO_SHORT
# torch's own limit is 600 s (NCCL) or 1800 s (Gloo); a shorter one was chosen by somebody. At the default and above,
# work that outlasts the limit is named as such: single-rank-work.
DEFAULT_LIMIT_S = 600.0


def check(facts: Facts) -> Iterator[Answer]:
    """Ranks that reached the call after the others had given up; limits far below any real work."""
    late = late_arrivals(facts)
    if late is not None:
        yield _late(facts, late)
        return
    for stall in facts.stalls:
        work = planned_work(facts, stall)
        if work is not None and work.limit_s < DEFAULT_LIMIT_S:
            yield _cut_off(facts, stall, work)
            return
    tiny = tiny_limits(facts)
    if tiny is not None:
        limit_s, evidence = tiny
        yield finding(
            CAUSE,
            Certainty.CERTAIN if limit_s < 1 else Certainty.LIKELY,
            say("the limit in force is {limit:g} s: shorter than an ordinary step", limit=limit_s),
            because=(say("the log prints the limit: {limit:g} s", limit=limit_s),),
            evidence=(evidence,),
            remedies=(_longer(limit_s),),
        )


def _late(facts: Facts, late: LateArrival) -> Answer:
    return finding(
        CAUSE,
        Certainty.CERTAIN if late.by_line and late.by_time else Certainty.LIKELY,
        say(
            "{ranks:who} reached the collective after the others' limit of {limit:g} s had passed",
            ranks=late.ranks,
            limit=late.limit_s,
        )
        if late.limit_s is not None
        else say("{ranks:who} reached the collective after the others had given up", ranks=late.ranks),
        ranks=late.ranks,
        nodes=hosts_of(facts, late.ranks),
        where=late.where,
        waiter_where=late.waiter_where,
        because=tuple(_because(late)),
        evidence=_evidence(late),
        remedies=(_longer(late.limit_s),),
    )


def _cut_off(facts: Facts, stall: Stall, work: PlannedWork) -> Answer:
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say(
            "{ranks:who} {ranks:was|were} at {done} of {total} of planned work "
            "when the others' limit of {limit:g} s passed",
            ranks=stall.laggards,
            done=work.done,
            total=work.total,
            limit=work.limit_s,
        ),
        ranks=stall.laggards,
        nodes=hosts_of(facts, stall.laggards),
        group=group_label(facts, stall.group),
        where=work.where,
        waiter_where=stall.call.where if stall.call else None,
        calls=call_of(stall.direct_waiters, stall.call),
        because=(
            say("{ranks:who} counted on: its work has an end and was on its way to it", ranks=stall.laggards),
            say("the limit in force is {limit:g} s, below torch's default", limit=work.limit_s),
        ),
        evidence=(work.evidence, work.timeout),
        remedies=(_longer(work.limit_s),),
    )


def _because(late: LateArrival) -> Iterator[Text]:
    yield say(
        "{waiters:who} gave up first; {ranks:who} entered the same call later",
        waiters=late.waiters,
        ranks=late.ranks,
    )
    if late.late_by_s is not None:
        yield say("it came {late:.0f} s after the first timeout: its work was planned, and ended", late=late.late_by_s)


def _evidence(late: LateArrival) -> tuple[Evidence, ...]:
    return tuple(quote_traceback(t) for t in (*late.waiter_tracebacks[:1], *late.tracebacks[:1]))


def _longer(limit_s: float | None) -> Remedy:
    return Remedy(
        title=say("Give the group a limit that fits its longest planned work"),
        kind=RemedyKind.CODE,
        change=say("init_process_group(timeout=timedelta(minutes=60)), and timeout= for every new_group() that waits"),
        cost=say("a real stall is noticed that much later"),
        verify=say("the next timeout message, if any, prints the new limit")
        if limit_s is not None
        else say("the job passes this place"),
    )
