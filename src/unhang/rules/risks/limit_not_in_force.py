"""A limit somebody set that is not the one in force.

What happens: whoever makes the first process group gives it its limit. The Trainer makes it before DeepSpeed does, so
``DEEPSPEED_TIMEOUT`` has no effect there.

Why it hangs: the job is ended after the other limit, and nobody understands why.

Example: ``DEEPSPEED_TIMEOUT=120`` with the transformers Trainer, whose ``ddp_timeout`` is 1,800 s.

Fix: set the knob of whoever makes the group.

Certain when: never; a program may make the group itself.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.preflight.situation import Situation
from unhang.facts.preflight.timers import Timers
from unhang.findings import Cause, Remedy, RemedyKind, Severity, say
from unhang.rules.risks.risk import Answer, risk

CHECK = "timers"


def ask(here: Situation) -> Iterator[Answer]:
    """One finding for each."""
    timers = here.found(Timers)
    for timer in timers.ignored if timers is not None else ():
        limits = timers.of("collective", "first steps") if timers is not None else ()
        if not limits or timer.evidence is None:
            continue
        first = limits[0]
        yield risk(
            CHECK,
            timer.name,
            Cause.TIMEOUT_TOO_SHORT,
            say(
                "{name} asks for {wanted:,.0f} s, and {other} makes the group first: {seconds:,.0f} s are in force",
                name=timer.name,
                wanted=timer.seconds,
                other=first.name,
                seconds=first.seconds,
            ),
            severity=Severity.NOTE,
            evidence=(timer.evidence,),
            remedies=(
                Remedy(
                    say("Set {name} instead", name=first.name),
                    RemedyKind.CONFIG,
                    say("{name}={seconds:.0f} (seconds)", name=first.name, seconds=timer.seconds),
                    say("none"),
                    say("unhang check --only timers says which limit comes first"),
                ),
            ),
        )
