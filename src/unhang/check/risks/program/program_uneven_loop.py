"""A loop over each rank's own data, with a collective in every round.

What happens: a loop runs until this rank's loader is exhausted, and each round holds a collective (the forward of a
sharded model is one). The loader goes over an iterable data set, whose length nobody made equal.

Why it hangs: the first rank to run out goes on to the next collective; the others wait in that of their next round.

Example: validation over packed sequences with FSDP: ``for batch in loader: loss += model(batch)``, then
``dist.all_reduce(loss)``.

Fix: stop together: let every rank say whether it has another batch (``all_reduce`` with MIN), or go a fixed number of
rounds.

Certain when: never; how many batches each rank gets is not in the source.

Possible when: loop, loader and collective were followed, and nothing in the loop ends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import found_in, place, quotes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.patterns.uneven_loops import UnevenLoop, uneven_loops
from unhang.program.program_source import ProgramSource
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each loop."""
    return found_in(here, uneven_loops, _finding)


def _finding(one: UnevenLoop, program: ProgramSource) -> Answer:
    because = [
        say("{call} waits for every rank of its group", call=one.call.text),
        say("the loader is made at {place}, over an iterable data set", place=place(one.data)),
    ]
    if one.others is not None:
        because.append(
            say(
                "a rank that runs out goes on to {call} ({place}); the others wait in {inner} ({there})",
                call=one.others.text,
                place=place(one.others),
                inner=one.call.text,
                there=place(one.call),
            )
        )
    return risk(
        CHECK,
        f"{one.loop.path}:{one.loop.line}",
        Cause.UNEVEN_DATA,
        say(
            "ranks may go round the loop over {data} another number of times, and each round holds {call}: {function}",
            data=one.loop.text,
            call=one.call.text,
            function=one.loop.function,
        ),
        certainty=Certainty.POSSIBLE,
        where=Where(one.loop.path, one.loop.line, one.loop.function),
        because=tuple(because),
        evidence=tuple(quotes(program, (one.loop, one.data, one.call, one.others))),
        remedies=(
            Remedy(
                say("Stop together: ask before each round whether every rank has another batch"),
                RemedyKind.CODE,
                say(
                    "more = torch.tensor(int(batch is not None), device=device)\n"
                    "dist.all_reduce(more, op=dist.ReduceOp.MIN)"
                ),
                say("one small collective a round; the last batches of some ranks are left out"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
