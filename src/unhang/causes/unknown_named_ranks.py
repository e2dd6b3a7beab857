"""unknown: torch's own report names the ranks that did not come; what they did is not told.

What happens: a monitored barrier or the desync debug mode lists the ranks that never reached the call.
Why it hangs: the others wait for them.
Example: `Rank 3 failed to pass monitoredBarrier in 30000 ms`.
Fix: look at that rank: its log, its stack.
Certain when: never: that it is late is told, why is not.
Possible when: the list names most ranks; then the few that came may be the odd ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.model import Facts
from unhang.facts.named_late import named_late
from unhang.findings import Cause, Certainty, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNKNOWN


def check(facts: Facts) -> Iterator[Answer]:
    """Ranks named late, when no dump, stack or exception says more of them."""
    late = named_late(facts)
    if late is None or own_crashes(facts) or facts.stalls or facts.disagreements:
        return
    most = facts.world_size is not None and len(late.ranks) * 2 > facts.world_size
    yield finding(
        CAUSE,
        Certainty.POSSIBLE if most else Certainty.LIKELY,
        say(
            "{ranks:who} did not come; {told_by} says so, and not what held them",
            ranks=late.ranks,
            told_by=late.told_by,
        ),
        ranks=late.ranks,
        nodes=hosts_of(facts, late.ranks),
        because=(say("it counted who had arrived when its limit passed"),),
        evidence=late.evidence,
        remedies=(remedy("look-at", ranks=late.ranks),),
    )
