"""A collective that only some ranks reach.

What happens: the program calls a collective, or gathers a sharded model, inside ``if rank == 0:``, after an early
return of some ranks, or behind any other test that ranks answer differently: on their own data, the time, a file, a
random number. The call may stand several functions further down.

Why it hangs: the ranks that reach it wait for ranks that never come.

Example: ``if rank == 0: torch.save(model.state_dict(), path)`` with FSDP; ``if mask.sum() == 0: return`` before
``accelerator.gather``; ``if trainer.is_global_zero: trainer.save_checkpoint(path)``.

Fix: call it on every rank, and keep only the writing in the branch; or let the ranks agree on the answer first.

Certain when: never; the branch may be dead code.

Possible when: the launch comes to the branch, and its other side meets no such collective. Likely when the test was
followed to the rank, and nothing unknown stands before the collective.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import place, quotes, ways_in
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, NotChecked, PassedCheck, Remedy, RemedyKind, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.collectives import collectives_by_name
from unhang.program.data_flow.function_steps import CHANCE, DATA, ERRORS, FILES, TIME
from unhang.program.paths.divergent_paths import PathDivergence, SourceLine
from unhang.program.program_source import ProgramSource
from unhang.sentences import Text, say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each branch."""
    program = here.found(ProgramSource)
    if program is None:
        return
    ways = ways_in(here)
    for one in ways.partings if ways is not None else ():
        yield _finding(one, program)
    if ways is not None and ways.partly:
        what = say("Whether every rank reaches the same collectives")
        yield NotChecked(what, say("the program is too large to be followed within the limit"), "", check=CHECK)
    elif ways is None or not ways.partings:
        yield PassedCheck(
            CHECK, say("no collective stands in a branch on the rank ({count} files)", count=len(program.files))
        )


def _finding(one: PathDivergence, program: ProgramSource) -> Answer:
    return risk(
        CHECK,
        f"{one.branch.path}:{one.branch.line}",
        Cause.RANK_CONDITIONAL_COLLECTIVE,
        _summary(one),
        certainty=Certainty.LIKELY if one.sure else Certainty.POSSIBLE,
        where=Where(one.call.path, one.call.line, one.call.function) if not one.chain else _where(one.chain[0]),
        because=tuple(_because(one)),
        evidence=tuple(quotes(program, (one.branch, *one.chain, one.call, one.others))),
        remedies=(_remedy(one),),
    )


def _summary(one: PathDivergence) -> Text:
    values = {"call": one.call.text, "test": one.branch.text, "line": one.branch.line}
    if one.kind in ("if", "else"):
        return say("only some ranks reach {call}: {test} (line {line})", **values)
    if one.kind == "except":
        return say("a rank that meets an error before {call} goes on without it (line {line})", **values)
    if one.kind == "loop":
        return say("ranks may reach {call} another number of times: {test} (line {line})", **values)
    return say("some ranks leave before {call}: {test} (line {line})", **values)


def _because(one: PathDivergence) -> Iterator[Text]:
    if _is_sharded(one):
        yield say("with sharded parameters {call} is a collective", call=one.call.text)
    else:
        yield say("{call} waits for every rank of its group", call=one.call.text)
    if DATA in one.why:
        yield say("every rank asks its own data in {test}", test=one.branch.text)
    if ERRORS in one.why:
        yield say("an error of one rank is caught there, and it goes on without the collectives of this round")
    if CHANCE in one.why:
        yield say("every rank draws a random number of its own in {test}", test=one.branch.text)
    if TIME in one.why:
        yield say("every rank asks its own clock in {test}", test=one.branch.text)
    if FILES in one.why:
        yield say("another rank makes that file: who looks later finds it, in {test}", test=one.branch.text)
    if one.chain:
        way = " → ".join([*(f"{at.function}:{at.line}" for at in one.chain), place(one.call)])
        yield say("the way from the test to the collective: {way}", way=way)
    if one.others is not None:
        yield say("the other ranks go on to {call} ({place})", call=one.others.text, place=place(one.others))
    if one.launch:
        way = " → ".join([*(f"{at.function}:{at.line}" for at in one.launch), one.branch.function])
        yield say("the launch comes there by {way}", way=way)


def _remedy(one: PathDivergence) -> Remedy:
    title = say("Call it on every rank, and keep only the writing in the branch")
    change = say("move {call} out of the branch", call=one.call.text)
    if ERRORS in one.why:
        title = say("Let an error end the job, or let all ranks skip the round together")
        change = say("except ...:\n    raise")
    elif {DATA, TIME, FILES, CHANCE} & set(one.why):
        title = say("Let all ranks agree on the answer before they part")
        change = say(
            "flag = torch.tensor(int({test}), device=device)\ndist.all_reduce(flag, op=dist.ReduceOp.MAX)\n"
            "if flag.item(): ...",
            test=one.branch.text,
        )
    elif _is_sharded(one):
        change = say("state = {call}()  # every rank\nif rank == 0: torch.save(state, path)", call=one.call.text)
    return Remedy(title, RemedyKind.CODE, change, say("none"), say("unhang check --only program no longer names it"))


def _is_sharded(one: PathDivergence) -> bool:
    rows = collectives_by_name().get(one.call.text.rpartition(".")[2], ())
    return bool(rows) and all(row.needs == "sharded" for row in rows)


def _where(at: SourceLine) -> Where:
    return Where(at.path, at.line, at.function)
