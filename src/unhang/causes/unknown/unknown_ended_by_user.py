"""unknown: in logs alone: somebody ended the job by hand while its ranks were in their first collective.

What happens: the job stands, and a person presses Ctrl-C; no limit had passed, so no rank complains.
Why it hangs: where all ranks had joined and none finished, nothing carries the bytes; where one is not heard, it works
alone, or it came too.
Example: `using GPU 3 to perform barrier …` of three ranks, twelve minutes without a line, `Received Signals.SIGINT`.
Fix: look below the program; the next time look before you end it (`unhang attach`).
Certain when: never.
Possible when: some ranks are not heard. *Likely* is, where all are, only that the transport and not the program stalls.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.wording.transport_suspects import transport_suspects
from unhang.facts.endings.ended_by_user import EndedByUser, ended_by_user
from unhang.facts.model import Facts
from unhang.findings import Cause, Ending, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.UNKNOWN


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Who had come to the first collective when somebody ended it."""
    ended = ended_by_user(facts)
    if ended is None or not ended.joined:
        return
    yield make_signal(
        CAUSE,
        Grade.ORDER,
        _summary(ended),
        whole=ended.all_joined,
        ending=Ending.FROM_OUTSIDE,
        because=tuple(_because(ended)),
        evidence=ended.evidence,
        remedies=(*((remedy("check-kernel-nccl-logs"),) if ended.all_joined else ()), remedy("attach-before-ending")),
    )
    if ended.all_joined:
        yield from transport_suspects(facts)


def _summary(ended: EndedByUser) -> Text:
    if ended.all_joined:
        return say(
            "somebody ended the job by hand: all {count} ranks had joined its first {operation} and none finished it",
            count=len(ended.joined),
            operation=ended.operation,
        )
    return say(
        "somebody ended the job by hand: {ranks:who} had come to its first {operation}; of the others no line tells",
        ranks=ended.joined,
        operation=ended.operation,
    )


def _because(ended: EndedByUser) -> Iterator[Text]:
    yield say("no rank failed or timed out before it")
    if ended.all_joined:
        yield say("no rank is behind, so no line of the program explains it")
    else:
        yield say(
            "{ranks:who} {ranks:is|are} not heard there: work of its own keeps it away, or it came too and nothing "
            "carries the bytes",
            ranks=ended.missing,
        )
