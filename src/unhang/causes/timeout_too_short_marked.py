"""timeout-too-short: work that the program marked (`unhang.phase`) may take longer than the others wait.

What happens: a rank is inside a marked phase, as planned; the others wait for it in a collective.
Why it hangs: the collective's limit is shorter than the time the mark allows, and ends the job in the midst of it.
Example: `with unhang.phase("evaluation", at_most_s=1800):` on rank 0, `init_process_group(timeout=600 s)`.
Fix: a limit above what the mark allows, or a wait that no limit ends (`unhang.rank_zero_first`).
Certain when: the mark has a bound that lies behind the limit, and the limit is near or has passed.
Possible when: the mark has no bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.marked_work import OutlastsLimit, outlasts_limit
from unhang.facts.model import Facts, Stall
from unhang.findings import Cause, Certainty, Phase, Remedy, Text, say
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, place_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.TIMEOUT_TOO_SHORT
_SPARE = 1.5
"""A limit should be so many times longer than the longest planned work."""


def check(facts: Facts) -> Iterator[Answer]:
    """Marked work that the others' limit does not cover, where that limit is near or has passed."""
    for stall in facts.stalls:
        found = outlasts_limit(facts, stall)
        if found is not None:
            yield _found(facts, stall, found)
            return


def _found(facts: Facts, stall: Stall, found: OutlastsLimit) -> Answer:
    return finding(
        CAUSE,
        Certainty.CERTAIN if found.work.at_most_s is not None else Certainty.LIKELY,
        _summary(found),
        ranks=(found.rank,),
        nodes=hosts_of(facts, (found.rank,)),
        group=group_label(facts, stall.group),
        phase=Phase(found.work.phase) if found.work.phase in {phase.value for phase in Phase} else None,
        where=place_of(facts, found.rank),
        waiter_where=stall.call.where if stall.call else None,
        calls=call_of(stall.direct_waiters, stall.call),
        because=tuple(_because(stall, found)),
        evidence=found.evidence,
        remedies=(_longer(found),),
    )


def _summary(found: OutlastsLimit) -> Text:
    if found.left_s is None:
        return say(
            "rank {rank} was in {label}, as planned, when the others' limit of {limit:g} s passed",
            rank=found.rank,
            label=found.work.label,
            limit=found.limit_s,
        )
    return say(
        "rank {rank} is in {label}, as planned; the others' limit of {limit:g} s ends the job before it need be done",
        rank=found.rank,
        label=found.work.label,
        limit=found.limit_s,
    )


def _because(stall: Stall, found: OutlastsLimit) -> Iterator[Text]:
    work = found.work
    if work.at_most_s is not None:
        yield say(
            "the program marks {label} with {allowed:g} s at most; it has gone on for {gone:.0f} s",
            label=work.label,
            allowed=work.at_most_s,
            gone=work.gone_s,
        )
    else:
        yield say(
            "the program marks {label} without a bound; it has gone on for {gone:.0f} s",
            label=work.label,
            gone=work.gone_s,
        )
    if found.left_s is not None:
        yield say(
            "{waiters:who} {waiters:waits|wait} in a collective whose limit passes in {left:.0f} s",
            waiters=stall.direct_waiters,
            left=found.left_s,
        )


def _longer(found: OutlastsLimit) -> Remedy:
    at_most_s = found.work.at_most_s if found.work.at_most_s is not None else 2 * found.limit_s
    minutes = max(1, -(-int(at_most_s * _SPARE) // 60))
    return remedy("give-the-collectives-a-limit-above-what", seconds=minutes * 60, minutes=minutes)
