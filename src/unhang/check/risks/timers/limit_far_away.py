"""A limit so far away that nothing ever ends a stall.

What happens: ``ddp_timeout: 180000000`` is 5.7 years. It was set so that a long tokenisation does not end the job.

Why it hangs: a real stall is never ended either: it burns the reservation until somebody looks, and no dump is written.

Example: 45 example files of LLaMA-Factory; the default of ms-swift is 208 days.

Fix: a limit that the longest honest step fits in (an hour or two), and the long work before the first collective.

Certain when: the limit is a day or more.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timers
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import whole_threshold
from unhang.sentences import say

CHECK = "timers"
FAR_S = whole_threshold("limit_far_away.far_s")
DAY_S = 86400.0
YEAR_DAYS = 365.25


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each such limit."""
    timers = here.found(Timers)
    for timer in timers.of("collective", "first steps", "later steps") if timers is not None else ():
        if timer.seconds < FAR_S or timer.evidence is None:
            continue
        yield risk(
            CHECK,
            timer.name,
            Cause.UNKNOWN,
            say(
                "{name} is {years:,.1f} years: a stall would never be ended, and no dump written",
                name=timer.name,
                years=timer.seconds / DAY_S / YEAR_DAYS,
            )
            if timer.seconds >= DAY_S * YEAR_DAYS
            else say(
                "{name} is {days:,.0f} days: a stall would never be ended, and no dump written",
                name=timer.name,
                days=timer.seconds / DAY_S,
            ),
            certainty=Certainty.CERTAIN,
            severity=Severity.SLOWS,
            evidence=(timer.evidence,),
            remedies=(
                Remedy(
                    say("Set {name} to what the longest honest step takes", name=timer.name),
                    RemedyKind.CONFIG,
                    say("7200 seconds; work that one rank does alone for longer belongs before the first collective"),
                    say("none"),
                    say("unhang check --only timers says which limit comes first"),
                ),
            ),
        )
