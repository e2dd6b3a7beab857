"""A limit somebody set that is not the one in force.

What happens: whoever makes the first process group gives it its limit. The Trainer makes it before DeepSpeed does, so
``DEEPSPEED_TIMEOUT`` has no effect there; a program that calls ``init_process_group`` makes it before the Trainer does,
so ``ddp_timeout`` has none.

Why it hangs: the job is ended after the other limit, and nobody understands why.

Example: ``ddp_timeout: 180000000`` in the YAML, ``init_process_group`` in the script: a long tokenisation is
ended after 600 s.

Fix: set the knob of whoever makes the group.

Certain when: never; a program may make the group itself, and not on every way through it.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timer, Timers
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Remedy, RemedyKind, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "timers"
DAY_S, YEAR_S = 86400.0, 86400.0 * 365.25


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each."""
    timers = here.found(Timers)
    for timer in timers.ignored if timers is not None else ():
        limits = timers.of("collective", "first steps") if timers is not None else ()
        if not limits or timer.evidence is None:
            continue
        yield _not_in_force(timer, limits[0])


def _not_in_force(timer: Timer, first: Timer) -> Answer:
    place = first.evidence.source if first.evidence is not None else None
    line = place.line if place is not None else None
    in_program = place is not None and line is not None
    return risk(
        CHECK,
        timer.name,
        Cause.TIMEOUT_TOO_SHORT,
        _summary(timer, first),
        severity=Severity.SLOWS if in_program else Severity.NOTE,
        where=Where(place.path, line, "") if place is not None and line is not None else None,
        because=(say("the Trainer takes the group that is there; its own limit is not read"),) if in_program else (),
        evidence=tuple(evidence for evidence in (timer.evidence, first.evidence) if evidence is not None),
        remedies=(_remedy(timer, first),),
    )


def _summary(timer: Timer, first: Timer) -> Text:
    if timer.seconds < YEAR_S:
        return say(
            "{name} asks for {wanted:,.0f} s, and {other} makes the group first: {seconds:,.0f} s are in force",
            name=timer.name,
            wanted=timer.seconds,
            other=first.name,
            seconds=first.seconds,
        )
    return say(
        "{name} asks for {years:,.1f} years, and {other} makes the group first: {seconds:,.0f} s are in force",
        name=timer.name,
        years=timer.seconds / YEAR_S,
        other=first.name,
        seconds=first.seconds,
    )


def _remedy(timer: Timer, first: Timer) -> Remedy:
    verify = say("unhang check --only timers says which limit comes first")
    if timer.seconds >= DAY_S:
        return Remedy(
            say(
                "Set {name} to what the longest honest step takes, and take {other} out",
                name=first.name,
                other=timer.name,
            ),
            RemedyKind.CODE,
            say("7200 seconds; work that one rank does alone for longer belongs before the first collective"),
            say("none"),
            verify,
        )
    return Remedy(
        say("Set {name} instead", name=first.name),
        RemedyKind.CONFIG,
        say("{name}={seconds:.0f} (seconds)", name=first.name, seconds=timer.seconds),
        say("none"),
        verify,
    )
