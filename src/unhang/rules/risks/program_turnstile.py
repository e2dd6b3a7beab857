"""Data prepared by the main process while the others wait in a barrier.

What happens: ``with training_args.main_process_first():`` lets rank 0 tokenise first; the others wait in a barrier
until its cache is there.

Why it hangs: the limit of a collective counts for the barrier too. A data set that takes longer ends the job, and all
of the work with it.

Example: 3 million rows at 900 rows a second take 55 minutes; the Trainer's ``ddp_timeout`` is 30.

Fix: wait on the store (``unhang.rank_zero_first``), prepare the data before the job, or raise the limit that counts.

Certain when: never; how long the work takes is not in the source.

Possible when: the work inside loads, maps or tokenises.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Situation
from unhang.facts.preflight.timers import Timer, Timers
from unhang.facts.preflight.turnstiles import Turnstile, turnstiles
from unhang.findings import Cause, Certainty, Evidence, Severity, Source, Where, say
from unhang.rules.risks.risk import Answer, risk
from unhang.rules.store_wait import wait_on_the_store

CHECK = "program"
SHORT_S = 600.0
"""A limit below torch's own for NCCL was chosen by somebody, and not for a tokenisation."""


def ask(here: Situation) -> Iterator[Answer]:
    """One finding, about the last such place: the work of the earlier ones is mostly short (downloads, loading)."""
    program, timers = here.found(ProgramSource), here.found(Timers)
    limits = timers.of("collective", "first steps") if timers is not None else ()
    if program is None or not limits:
        return
    found = [(source, one) for source in program.files for one in turnstiles(source)]
    if not found:
        return
    source, last = found[-1]
    yield _finding(last, source.text.splitlines()[last.line - 1].strip(), limits[0], len(found) - 1)


def _finding(one: Turnstile, text: str, limit: Timer, others: int) -> Answer:
    where = Where(one.path, one.line, one.function)
    return risk(
        CHECK,
        f"{one.path}:{one.line}",
        Cause.SINGLE_RANK_WORK,
        say(
            "the main process runs {work} alone, and the others wait for it in a barrier: {seconds:,.0f} s at most",
            work=one.work,
            seconds=limit.seconds,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.SLOWS if limit.seconds < SHORT_S else Severity.NOTE,
        where=where,
        because=(
            say("the limit in force is that of {name}", name=limit.name),
            *((say("more such places in the program: {count}", count=others),) if others else ()),
        ),
        evidence=tuple(e for e in (Evidence(Source(one.path, one.line), text), limit.evidence) if e is not None),
        remedies=(wait_on_the_store(one.name, where),),
    )
