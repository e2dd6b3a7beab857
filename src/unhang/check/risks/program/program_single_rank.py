"""Work that one rank does alone while the others wait for it in a collective.

What happens: rank 0 evaluates a data set, writes the metrics or saves a file inside the training loop, or downloads
something before a barrier; or ``with main_process_first():`` lets it tokenise first. The others go on to the next
collective and wait there. A wait outside collectives helps, and does nothing where its context manager is called
without ``with``.

Why it hangs: the limit of a collective counts for this wait too. Work that takes longer ends the job.

Example: ``if not is_master(args): return`` at the top of ``evaluate()``, called after every epoch; 3 million rows
tokenised at 900 rows a second take 55 minutes, the Trainer's ``ddp_timeout`` is 30.

Fix: share the work among the ranks, do it outside the loop, wait on the store (``unhang.rank_zero_first``), or raise
the limit that counts.

Certain when: never; how long the work takes is not in the source.

Possible when: the work goes over a data set, writes to a folder or service, or loads, maps or tokenises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.causes.wording.log_writing_remedies import log_remedies
from unhang.causes.wording.store_wait_remedy import store_wait_remedy
from unhang.check.environment.timers import Timer, Timers
from unhang.check.main_process_first_blocks import MainProcessFirstBlock, main_process_first_blocks
from unhang.check.risks.program.program_places import place, quotes, ways_in
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, Phase, Remedy, RemedyKind, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.job_paths import path_names
from unhang.program.patterns.single_rank_waits import (
    UnenteredContext,
    WorkBeforeWait,
    unentered_contexts,
    work_before_waits,
)
from unhang.program.patterns.single_rank_work import DATA, LOG, SAVE, SingleRankWork, single_rank_work
from unhang.program.program_source import ProgramSource
from unhang.program.settings.job_values import job_values
from unhang.sentences import Text, say

CHECK = "program"
SHORT_S = 600.0
"""A limit below torch's own for NCCL was chosen by somebody, and not for a tokenisation."""
_PHASES = {DATA: Phase.EVAL, LOG: Phase.LOG, SAVE: Phase.SAVE}
_BASES = ("job.dump_folder", "dump_folder")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each kind of work."""
    program, timers = here.found(ProgramSource), here.found(Timers)
    if program is None or timers is None:
        return
    yield from _turnstile(program, timers.of("collective", "first steps"))
    ways = ways_in(here)
    for lost in unentered_contexts(ways) if ways is not None else ():
        yield _not_entered(lost, program)
    first = timers.of("collective", "first steps")
    before = list(work_before_waits(ways)) if ways is not None and first else []
    if before:
        yield _before(before[0], program, first[0], len(before) - 1)
    limits, works = timers.of("collective", "later steps"), single_rank_work(ways)
    for kind in (DATA, LOG, SAVE) if limits else ():
        alike = sorted((one for one in works if one.kind == kind), key=lambda one: one.work.path != one.branch_path)
        if alike:
            yield _in_loop(here, program, alike, limits[0])


def _in_loop(here: NodeInspection, program: ProgramSource, works: Sequence[SingleRankWork], limit: Timer) -> Answer:
    first = works[0]
    return risk(
        CHECK,
        f"{first.work.path}:{first.work.line}",
        Cause.SINGLE_RANK_WORK,
        _summary(first, limit),
        certainty=Certainty.LIKELY if first.branch.sure and first.kind == DATA else Certainty.POSSIBLE,
        severity=Severity.SLOWS if first.kind == DATA else Severity.NOTE,
        phase=_PHASES[first.kind],
        where=Where(first.work.path, first.work.line, first.work.function),
        because=tuple(_because(here, first, limit, len(works) - 1)),
        evidence=tuple(_quotes(program, first, limit)),
        remedies=_remedies(first),
    )


def _summary(one: SingleRankWork, limit: Timer) -> Text:
    values = {"place": place(one.waits), "seconds": limit.seconds}
    if one.kind == DATA:
        return say(
            "only some ranks go through a data set in {function}; the others wait for them in the next collective "
            "({place}), {seconds:,.0f} s at most",
            function=one.work.function,
            **values,
        )
    if one.kind == LOG:
        return say(
            "one rank writes the metrics in the training loop ({call}); the others wait for it in the next collective "
            "({place}), {seconds:,.0f} s at most",
            call=one.work.text,
            **values,
        )
    return say(
        "one rank saves in the training loop ({call}); the others wait for it in the next collective ({place}), "
        "{seconds:,.0f} s at most",
        call=one.work.text,
        **values,
    )


def _because(here: NodeInspection, one: SingleRankWork, limit: Timer, others: int) -> Iterator[Text]:
    yield say("the ranks part at {place}: {test}", place=f"{one.branch_path}:{one.branch.line}", test=one.branch.test)
    yield say("it is done in the loop at {place}", place=place(one.loop))
    if one.kind == LOG:
        logs = tuple(name.name for name in path_names() if name.use == "logs" and name.where == "argument")
        for value in job_values(here, *logs, *_BASES):
            yield say("it goes to {folder}: where that is slow, every step is", folder=value.value)
            break
    yield say("the limit in force is that of {name}", name=limit.name)
    if others:
        yield say("more such places in the program: {count}", count=others)


def _quotes(program: ProgramSource, one: SingleRankWork, limit: Timer) -> Iterator[Evidence]:
    yield from quotes(program, (one.work, one.waits))
    if limit.evidence is not None:
        yield limit.evidence


def _remedies(one: SingleRankWork) -> tuple[Remedy, ...]:
    if one.kind == LOG:
        return log_remedies()
    if one.kind == SAVE:
        return (store_wait_remedy("", None),)
    share = Remedy(
        say("Let every rank evaluate its share"),
        RemedyKind.CODE,
        say("sampler=DistributedSampler(data, shuffle=False) on every rank; dist.all_reduce of the sums at the end"),
        say("a few samples count twice where the ranks do not divide the data set"),
        say("unhang check --only program no longer names it"),
    )
    return share, store_wait_remedy("", None)


def _not_entered(one: UnenteredContext, program: ProgramSource) -> Answer:
    return risk(
        CHECK,
        f"{one.call.path}:{one.call.line}",
        Cause.SINGLE_RANK_WORK,
        say(
            "{function} calls {call} without `with`: it is a context manager, and nothing in it runs",
            function=one.call.function,
            call=one.call.text,
        ),
        severity=Severity.SLOWS,
        where=Where(one.call.path, one.call.line, one.call.function),
        because=(say("it would wait there: {what} ({place})", what=one.waits.text, place=place(one.waits)),),
        evidence=tuple(quotes(program, (one.call, one.waits))),
        remedies=(
            Remedy(
                say("Enter it, with what comes behind inside"),
                RemedyKind.CODE,
                say("with {call}: ...", call=one.call.text),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )


def _before(one: WorkBeforeWait, program: ProgramSource, limit: Timer, others: int) -> Answer:
    where = Where(one.branch.path, one.branch.line, one.branch.function)
    return risk(
        CHECK,
        f"{one.branch.path}:{one.branch.line}",
        Cause.SINGLE_RANK_WORK,
        say(
            "some ranks run {work} alone in {function}; the others wait in {call} ({place}): {seconds:,.0f} s at most",
            work=one.work.text,
            function=one.branch.function,
            call=one.waits.text,
            place=place(one.waits),
            seconds=limit.seconds,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.SLOWS if limit.seconds < SHORT_S else Severity.NOTE,
        where=where,
        because=(
            say("the ranks part at {place}: {test}", place=place(one.branch), test=one.branch.text),
            say("the limit in force is that of {name}", name=limit.name),
            *((say("more such places in the program: {count}", count=others),) if others else ()),
        ),
        evidence=(
            *quotes(program, (one.branch, *one.chain, one.work, one.waits)),
            *((limit.evidence,) if limit.evidence is not None else ()),
        ),
        remedies=(store_wait_remedy("", None),),
    )


def _turnstile(program: ProgramSource, limits: Sequence[Timer]) -> Iterator[Answer]:
    """About the last such place: the work of the earlier ones is mostly short (downloads, loading)."""
    found = [(source, one) for source in program.files for one in main_process_first_blocks(source)]
    if found and limits:
        source, last = found[-1]
        yield _first_alone(last, source.text.splitlines()[last.line - 1].strip(), limits[0], len(found) - 1)


def _first_alone(one: MainProcessFirstBlock, text: str, limit: Timer, others: int) -> Answer:
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
        remedies=(store_wait_remedy(one.name, where),),
    )
