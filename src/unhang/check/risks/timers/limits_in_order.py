"""Which timer fires first, and whether it is the one that leaves evidence.

What happens: the watchdog writes a dump and ends the rank. A scheduler or a heartbeat that fires before it ends the job
without one.

Why it hangs: it does not; but what would tell why it hung is not written.

Example: ten minutes of the reservation are left, and the limit is thirty.

Fix: a limit below what is left.

Certain when: the scheduler's end is known.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timers
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "timers"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Say the order, or that the scheduler comes first."""
    result = here.result(Timers)
    gap = could_not(CHECK, say("Limits the program sets itself"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    limits, ends = result.found.of("collective", "first steps", "later steps"), result.found.of("scheduler")
    if not limits:
        return
    first = limits[0]
    if ends and ends[0].seconds < first.seconds:
        yield risk(
            CHECK,
            ends[0].name,
            Cause.UNKNOWN,
            say(
                "{name} ends the job in {left:,.0f} s, before a limit of {seconds:,.0f} s could say why it hangs",
                name=ends[0].name,
                left=ends[0].seconds,
                seconds=first.seconds,
            ),
            certainty=Certainty.CERTAIN,
            severity=Severity.NOTE,
            evidence=tuple(e for e in (ends[0].evidence, first.evidence) if e is not None),
            remedies=(
                Remedy(
                    say("Set {name} below what is left, or start with unhang run", name=first.name),
                    RemedyKind.CONFIG,
                    say("unhang run notices a stall in seconds, whatever the limit"),
                    say("none"),
                    say("unhang check --only timers"),
                ),
            ),
        )
        return
    yield PassedCheck(CHECK, say("{name} comes first: {seconds:,.0f} s", name=first.name, seconds=first.seconds))
