"""timeout-too-short: in logs alone: the limit that passed is not the one that was set.

What happens: the user asked for hours, the watchdog prints its default.
Why it hangs: the waiters give up although the work they wait for would have ended within the limit that was meant.
Example: `--ddp_timeout 180000` in the command, `Timeout(ms)=1800000` in the watchdog's line.
Fix: set the limit where the group is made: before anything else calls init_process_group, and for every new_group.
Certain when: never: why the others were late is another question.
Possible when: the two limits may belong to different groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.limits import limit_not_in_force
from unhang.facts.model import Facts
from unhang.facts.spanning_work import spanning_work
from unhang.findings import Cause, Certainty, Remedy, say
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.TIMEOUT_TOO_SHORT


def check(facts: Facts) -> Iterator[Answer]:
    """A longer limit was set than the one that passed, and nobody failed by itself."""
    limit = limit_not_in_force(facts)
    if limit is None or own_crashes(facts):
        return
    working = spanning_work(facts) is not None
    yield finding(
        CAUSE,
        Certainty.LIKELY if working else Certainty.POSSIBLE,
        say(
            "the limit that passed is {passed:g} s, not the {wanted:g} s that {name} asks for",
            passed=limit.passed_s,
            wanted=limit.set_s,
            name=limit.name,
        ),
        because=(
            say("the setting did not reach the group that timed out: it was made earlier, or by new_group()"),
            *(
                (say("a rank was still at work that would have ended within the limit that was meant"),)
                if working
                else ()
            ),
        ),
        evidence=limit.evidence,
        remedies=(_set_it_there(),),
    )


def _set_it_there() -> Remedy:
    return remedy("set-the-limit-where-the-group-is")
