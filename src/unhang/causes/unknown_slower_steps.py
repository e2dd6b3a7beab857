"""unknown: nothing is stuck, and the steps take longer and longer.

What happens: the time between two step lines grows; no rank complains.
Why it hangs: it does not; at this pace the job outlasts its limits or its reservation.
Example: 0.5 s a step up to step 400, 1.4 s at step 1,000.
Fix: find what grows: a list of losses with their graphs, an unbounded cache, fragmentation, heat, a filling disk.
Certain when: never: the lines tell that it slows, not why.
Possible when: the numbers of a step line are counted in other units.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.log_waits import incident_of
from unhang.facts.model import Facts
from unhang.facts.step_pace import growing_steps
from unhang.findings import Cause, Certainty, Remedy, Severity, say
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNKNOWN


def check(facts: Facts) -> Iterator[Answer]:
    """Only where nobody waits in vain and nobody failed."""
    if incident_of(facts) is not None or own_crashes(facts) or facts.stalls or facts.symmetric or facts.disagreements:
        return
    growing = growing_steps(facts)
    if growing is None:
        return
    yield finding(
        CAUSE,
        Certainty.LIKELY,
        say(
            "steps take longer and longer since step {step}: {before:.2g} s at first, {now:.2g} s at last",
            step=growing.since_step,
            before=growing.before_s,
            now=growing.now_s,
        ),
        severity=Severity.SLOWS,
        because=(say("the lines of '{label}' carry their times, and the pace only falls", label=growing.label),),
        evidence=(growing.evidence,),
        remedies=(_find_what_grows(),),
    )


def _find_what_grows() -> Remedy:
    return remedy("find-what-grows-with-the-steps")
