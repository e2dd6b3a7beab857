"""unknown: ranks timed out, and nothing that was read tells whom they waited for.

What happens: a paste holds one watchdog line, or those of some ranks at one position.
Why it hangs: somebody did not come to that call, or nobody's transfer ended; the line is the same for both.
Example: one line `Watchdog caught collective operation timeout: WorkNCCL(… NumelIn=262675456, NumelOut=1050701824 …)`.
Fix: collect the other ranks' logs, dumps and stacks; then ask again.
Certain when: never; it is the honest answer.
Possible when: always: the limit, the operation and the moment the stall began are known, the cause is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.log_waits import Incident, incident_of
from unhang.facts.model import Facts
from unhang.findings import Call, Cause, Certainty, Remedy, Text, say
from unhang.knowledge.numbers import moment
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNKNOWN


def check(facts: Facts) -> Iterator[Answer]:
    """An incident of which the wait-for graph knows nothing more."""
    incident = incident_of(facts)
    if incident is None or facts.stalls or facts.symmetric or facts.disagreements or own_crashes(facts):
        return
    yield finding(
        CAUSE,
        Certainty.POSSIBLE,
        say("{ranks:who} timed out; nothing that was read tells whom they waited for", ranks=incident.ranks)
        if incident.ranks
        else say("a collective timed out; nothing that was read tells who was missing"),
        calls=tuple(
            Call((w.rank,) if w.rank is not None else (), w.operation, w.position, w.elements)
            for w in incident.waits[:8]
            if w.operation
        ),
        because=tuple(_known(facts, incident)),
        evidence=tuple(w.evidence for w in incident.waits[:3]),
        remedies=(_collect(),),
    )


def _known(facts: Facts, incident: Incident) -> Iterator[Text]:
    for limit in incident.limits[:2]:
        yield say("the limit in force is {limit:g} s", limit=limit)
    if facts.world_size is not None:
        yield say(
            "the job has at least {count} ranks; {seen} of them were read",
            count=facts.world_size,
            seen=len(facts.ranks_seen),
        )
    if any(w.barrier and w.operation for w in incident.waits):
        yield say("an all-reduce of one element is a barrier")
    began = moment(incident.began_s) if incident.began_s is not None else None
    if began is not None:
        yield say(
            "the stall began at {moment} by the log's clock: the timeout's time less its limit",
            moment=began.strftime("%Y-%m-%d %H:%M:%S"),
        )


def _collect() -> Remedy:
    return remedy("collect-what-tells-ranks-apart")
