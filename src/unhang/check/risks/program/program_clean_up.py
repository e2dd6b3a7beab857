"""Clean-up that waits for other ranks, and runs also after an exception of one rank.

What happens: ``destroy_process_group`` stands in a ``finally``, or is registered with ``atexit``.

Why it hangs: with NCCL it finishes what this rank has under way before it ends. After an exception in the middle of a
step the others never take part in that, so the process does not end, and its launcher never learns of the failure.

Example: ``atexit.register(dist.destroy_process_group)``; ``try: train() finally: dist.destroy_process_group()``.

Fix: destroy the group at the regular end only; after an exception end the process.

Certain when: never; it takes an exception on one rank with a collective under way.

Possible when: the launch comes there, and nothing in the program ends the process after an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from unhang.check.risks.program.program_places import found_in, quotes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.patterns.blocking_cleanup import BlockingCleanup, blocking_cleanups
from unhang.program.program_source import ProgramSource
from unhang.sentences import Text, say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for the program: its other places come to run after the same exception."""
    return found_in(here, lambda ways: islice(blocking_cleanups(ways), 1), _finding)


def _finding(one: BlockingCleanup, program: ProgramSource) -> Answer:
    return risk(
        CHECK,
        f"{one.at.path}:{one.at.line}",
        Cause.RANK_CRASHED,
        _summary(one),
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE,
        where=Where(one.at.path, one.at.line, one.at.function),
        because=(say("destroy_process_group first finishes the calls this rank has under way, with the other ranks"),),
        evidence=tuple(quotes(program, (one.at,))),
        remedies=(
            Remedy(
                say("Destroy the process group at the regular end only"),
                RemedyKind.CODE,
                say("train()\ndist.destroy_process_group()  # neither in finally nor with atexit"),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )


def _summary(one: BlockingCleanup) -> Text:
    if one.how == "atexit":
        return say(
            "after an exception on one rank, {call} (registered with atexit) waits for the others: the process may "
            "not end",
            call=one.call,
        )
    return say(
        "after an exception on one rank, {call} in finally waits for the others: the process may not end", call=one.call
    )
