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
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Evidence, Remedy, RemedyKind, Text, say
from unhang.rules.evidence_lines import hosts_of, quote_traceback
from unhang.rules.rule import Answer, finding

CAUSE = Cause.TIMEOUT_TOO_SHORT


def check(facts: Facts) -> Iterator[Answer]:
    """Ranks that reached the call after the others had given up; limits far below any real work."""
    late = late_arrivals(facts)
    if late is not None:
        yield _late(facts, late)
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
            rule=__name__.rsplit(".", 1)[-1],
            weight=1.0,
        )


def _late(facts: Facts, late: LateArrival) -> Answer:
    return finding(
        CAUSE,
        Certainty.CERTAIN if late.by_line and late.by_time else Certainty.LIKELY,
        say(
            "rank {ranks} reached the collective after the others' limit of {limit:g} s had passed",
            ranks=late.ranks,
            limit=late.limit_s,
        )
        if late.limit_s is not None
        else say("rank {ranks} reached the collective after the others had given up", ranks=late.ranks),
        ranks=late.ranks,
        nodes=hosts_of(facts, late.ranks),
        where=late.where,
        waiter_where=late.waiter_where,
        because=tuple(_because(late)),
        evidence=_evidence(late),
        remedies=(_longer(late.limit_s),),
        rule=__name__.rsplit(".", 1)[-1],
        weight=float(len(facts.ranks)),
    )


def _because(late: LateArrival) -> Iterator[Text]:
    yield say(
        "ranks {waiters} gave up first; rank {ranks} entered the same call later",
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
