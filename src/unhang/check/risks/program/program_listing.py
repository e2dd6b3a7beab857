"""Files listed without sorting, whose order becomes that of the data.

What happens: every rank lists a folder (``os.walk``, ``listdir``, ``glob``) and makes its data set of what comes, in
the order it comes.

Why it hangs: the file system promises no order, and nodes differ. Ranks of one group then hold another file, of another
length, for the same index, and wait for each other in calls of unequal shape.

Example: hidden states read with ``os.walk`` for sequence parallelism.

Fix: sort the list.

Certain when: never; on one local disk the orders agree as a rule.

Possible when: the list reaches a data set, and nothing on the way sorts it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import found_in, place, quotes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.patterns.unsorted_listings import UnsortedListing, unsorted_listings
from unhang.program.program_source import ProgramSource
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each listing."""
    return found_in(here, unsorted_listings, _finding)


def _finding(one: UnsortedListing, program: ProgramSource) -> Answer:
    return risk(
        CHECK,
        f"{one.call.path}:{one.call.line}",
        Cause.UNEVEN_DATA,
        say(
            "{function} lists files with {call} and does not sort them: ranks may read them in another order",
            function=one.call.function,
            call=one.call.text,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE,
        where=Where(one.call.path, one.call.line, one.call.function),
        because=(say("they become data in {call} ({place})", call=one.used.text, place=place(one.used)),),
        evidence=tuple(quotes(program, (one.call, one.used))),
        remedies=(
            Remedy(
                say("Sort the list"),
                RemedyKind.CODE,
                say("files.sort()"),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
