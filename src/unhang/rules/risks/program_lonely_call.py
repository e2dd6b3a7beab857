"""A collective in a branch that only some ranks take.

What happens: the program calls a collective, or gathers a sharded model, inside ``if rank == 0:`` or after an early
return of some ranks.

Why it hangs: the ranks inside wait for ranks that never come.

Example: ``if rank == 0: torch.save(model.state_dict(), path)`` with FSDP; ``if step % 100 == 0 and rank == 0:
dist.barrier()``.

Fix: call it on every rank, and keep only the writing in the branch.

Certain when: never; the branch may be dead code, or a partner may stand in another file.

Possible when: the test was followed to the rank.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.preflight.lonely_calls import LonelyCall, lonely_calls
from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Situation
from unhang.findings import Cause, Certainty, Checked, Evidence, Remedy, RemedyKind, Source, Where, say
from unhang.rules.risks.risk import Answer, risk

CHECK = "program"


def ask(here: Situation) -> Iterator[Answer]:
    """One finding for each such call."""
    look = here.look(ProgramSource)
    if look.found is None:
        return
    count = 0
    for source in look.found.files:
        lines = source.text.splitlines()
        for one in lonely_calls(source):
            count += 1
            yield _finding(one, lines[one.line - 1].strip())
    if not count:
        yield Checked(
            CHECK, say("no collective stands in a branch on the rank ({count} files)", count=len(look.found.files))
        )


def _finding(one: LonelyCall, text: str) -> Answer:
    reason = (
        say("with sharded parameters {call} is a collective", call=one.call)
        if one.sharded
        else say("{call} waits for every rank of its group", call=one.call)
    )
    return risk(
        CHECK,
        f"{one.path}:{one.line}",
        Cause.RANK_CONDITIONAL_COLLECTIVE,
        say(
            "only some ranks reach {call}: {test} (line {line})",
            call=one.call,
            test=one.branch.test,
            line=one.branch.line,
        ),
        certainty=Certainty.POSSIBLE if one.sharded else Certainty.LIKELY,
        where=Where(one.path, one.line, one.function),
        because=(reason,),
        evidence=(Evidence(Source(one.path, one.line), text),),
        remedies=(
            Remedy(
                say("Call it on every rank, and keep only the writing in the branch"),
                RemedyKind.CODE,
                say("state = {call}()  # every rank\nif rank == 0: torch.save(state, path)", call=one.call)
                if one.sharded
                else say("move {call} out of the branch", call=one.call),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
