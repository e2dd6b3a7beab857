"""collective-mismatch: in a job that goes on: ranks called different things at one position, and nothing stopped.

What happens: dtypes of the same width differ, or a root sends less than the others expect: bytes go where they fit.
Why it hangs: it does not yet; results are wrong from there on, and ranks that compute with them may part ways later.
Example: one rank all-reduces its loss as int32, the others as float32; the reduced value is garbage on every rank.
Fix: make operation, size and dtype equal on all ranks before the call; look at what the results were used for.
Certain when: the ranks' records line up at that position and all have passed it.
Possible when: never less than *likely*: where some records begin at that very position.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.camps import camps_of_disagreement
from unhang.facts.model import Disagreement, Facts
from unhang.findings import Cause, Certainty, Phase, Remedy, Severity, Text, say
from unhang.rules.evidence_lines import calls_of, group_label, hosts_of, quote_disagreement
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.COLLECTIVE_MISMATCH


def check(facts: Facts) -> Iterator[Answer]:
    """Calls that differ, which a watcher compared while the job went on."""
    for disagreement in facts.survived:
        if disagreement.differs_in:
            yield _found(facts, disagreement)


def _found(facts: Facts, disagreement: Disagreement) -> Answer:
    camps = camps_of_disagreement(facts, disagreement)
    ranks = disagreement.odd or tuple(sorted(rank for camp in camps for rank in camp.ranks))
    odd = next((c for c in camps if set(c.ranks) & set(ranks)), camps[0])
    other = next((c for c in camps if c is not odd), None)
    return finding(
        CAUSE,
        Certainty.CERTAIN if disagreement.records_align else Certainty.LIKELY,
        _summary(disagreement, ranks),
        severity=Severity.SLOWS,
        ranks=ranks,
        nodes=hosts_of(facts, ranks),
        group=group_label(facts, disagreement.group),
        phase=Phase.COMMUNICATION,
        where=odd.where,
        waiter_where=other.where if other is not None else None,
        calls=calls_of(disagreement),
        because=tuple(_because(disagreement)),
        evidence=quote_disagreement(disagreement),
        remedies=(_make_equal(),),
    )


def _summary(disagreement: Disagreement, ranks: tuple[int, ...]) -> Text:
    kinds = " and ".join(disagreement.differs_in)
    if disagreement.odd:
        return say(
            "{ranks:who} called another {kinds} than the others at position {position}, and the job went on: "
            "results are wrong",
            ranks=ranks,
            kinds=kinds,
            position=disagreement.position,
        )
    return say(
        "{ranks:who} disagree in {kinds} at position {position}, and the job went on: results are wrong",
        ranks=ranks,
        kinds=kinds,
        position=disagreement.position,
    )


def _because(disagreement: Disagreement) -> Iterator[Text]:
    for signature, ranks in disagreement.calls.items():
        yield say(
            "{ranks:who}: {operation} of {elements} elements, {dtype}",
            ranks=ranks,
            operation=signature.operation,
            elements=signature.input_elements,
            dtype="/".join(dict.fromkeys(signature.input_dtypes)) or "no tensor",
        )
    if disagreement.times > 1:
        yield say("so far it happened at {times} recorded positions", times=disagreement.times)
    yield say("nothing stops there: the library moves bytes, and these fit or nearly fit")
    if not disagreement.records_align:
        yield say("some records start later than others, so positions may be shifted against each other")


def _make_equal() -> Remedy:
    return remedy("stop-the-job-and-make-the-calls")
