"""Collectives in the order of a set.

What happens: a loop goes through a set (or a list made of one) and calls a collective for each member.

Why it hangs: the order of a set of strings follows hashes that differ from process to process, that of objects their
addresses in memory. One rank reduces this tensor while another reduces that one; where the sizes differ, they wait for
each other, and where they are equal, the numbers are wrong without a word.

Example: ``self.names = set()`` … ``for name in self.names: dist.all_reduce(getattr(self, name))``.

Fix: keep the members in a list or a dict, or sort them.

Certain when: never; whole numbers hash to themselves, and a set of one has one order.

Possible when: set, loop and collective were followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import found_in, place, quotes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.patterns.set_iteration import SetIteration, loops_in_set_order
from unhang.program.program_source import ProgramSource
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each loop."""
    return found_in(here, loops_in_set_order, _finding)


def _finding(one: SetIteration, program: ProgramSource) -> Answer:
    because = [say("{members} holds a set: hashes and addresses, and so its order, differ", members=one.loop.text)]
    if one.given:
        way = " ← ".join(f"{at.text} ({place(at)})" for at in one.given)
        because.append(say("it is handed over as {way}", way=way))
    if one.chain:
        way = " → ".join([*(f"{at.function}:{at.line}" for at in one.chain), place(one.call)])
        because.append(say("the way from the loop to the collective: {way}", way=way))
    return risk(
        CHECK,
        f"{one.loop.path}:{one.loop.line}",
        Cause.COLLECTIVE_MISMATCH,
        say(
            "{call} is called in the order of the set {members}, which differs from process to process",
            call=one.call.text,
            members=one.loop.text,
        ),
        certainty=Certainty.POSSIBLE,
        where=Where(one.loop.path, one.loop.line, one.loop.function),
        because=tuple(because),
        evidence=tuple(quotes(program, (one.loop, *one.given, *one.chain, one.call))),
        remedies=(
            Remedy(
                say("Go through the members in an order that all ranks share"),
                RemedyKind.CODE,
                say("for member in sorted({members}): ...", members=one.loop.text),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
