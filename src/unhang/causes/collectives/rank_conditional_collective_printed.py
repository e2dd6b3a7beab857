"""rank-conditional-collective: in logs alone: ranks are in calls of different parts of the program.

What happens: one rank saves, evaluates or logs with a collective in it while the others go on; or calls are shifted.
Why it hangs: the one rank's call has no partner, and from there on all calls are paired wrongly.
Example: at sequence 485 rank 0 broadcasts an object inside save_checkpoint, rank 1 all-reduces gradients.
Fix: move the collective out of the branch: all ranks call it, one of them writes.
Certain when: never from logs alone.
Possible when: only rank 0 times out in a barrier after the training, or positions are shifted without group names.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import hosts_of
from unhang.facts.alignment.collective_fingerprints import FingerprintMismatch, fingerprint_mismatch
from unhang.facts.alignment.sequence_offset import SequenceOffset, find_sequence_offset, minority_and_majority
from unhang.facts.logs.last_log_lines import last_line_phases
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts
from unhang.findings import Call, Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Printed calls of different work, shifted calls, rank 0 alone in the last barrier."""
    printed = fingerprint_mismatch(facts)
    if printed is not None and "operation" in printed.differs_in and printed.side_work:
        yield _other_work(printed)
    shift = find_sequence_offset(facts)
    if shift is not None:
        yield _sequence_offset(shift)
    logged = logged_waits(facts)
    if logged is not None and _alone_at_the_end(facts, logged):
        yield _last_barrier(facts, logged)


def _other_work(printed: FingerprintMismatch) -> DetectorResult:
    doing = printed.phase.value if printed.phase is not None else "other"
    return make_signal(
        CAUSE,
        Grade.RECORD,
        say(
            "{ranks:who} {ranks:calls|call} a collective in its {doing} part; the others are elsewhere",
            ranks=printed.side_work,
            doing=doing,
        ),
        whole=False,
        ranks=printed.side_work,
        phase=printed.phase,
        where=printed.where,
        calls=printed.as_calls(),
        because=(
            say(
                "different operations at position {position}: the ranks are in different parts of the program",
                position=printed.position,
            ),
        ),
        evidence=printed.evidence,
        remedies=(remedy("call-everywhere-write-once"),),
    )


def _sequence_offset(shift: SequenceOffset) -> DetectorResult:
    behind = tuple(sorted({w.rank for w in shift.behind if w.rank is not None}))
    ahead = tuple(sorted({w.rank for w in shift.ahead if w.rank is not None}))
    few, many = (tuple(sorted({w.rank for w in side if w.rank is not None})) for side in minority_and_majority(shift))
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say(
            "{behind:who} {behind:is|are} {by} calls off against {ahead:who}, "
            "although nobody can pass such a call alone",
            behind=few,
            by=shift.by,
            ahead=many,
        ),
        whole=all(w.group != "0" for w in (*shift.behind, *shift.ahead)),
        ranks=few,
        calls=tuple(
            Call(ranks, waits[0].operation, waits[0].position, waits[0].elements)
            for ranks, waits in ((behind, shift.behind), (ahead, shift.ahead))
        ),
        because=(
            say(
                "{operation} ends on no rank before it has begun on all, so rank "
                "{ahead} was in another call at position "
                "{position}",
                operation=shift.behind[0].operation,
                ahead=ahead,
                position=shift.behind[0].position,
            ),
            say("one side made {by} calls that the other did not: look for a branch on the rank", by=shift.by),
        ),
        evidence=(shift.behind[0].evidence, shift.ahead[0].evidence),
        remedies=(remedy("call-everywhere-write-once"),),
    )


def _alone_at_the_end(facts: Facts, logged: LoggedWaits) -> bool:
    """Only rank 0 gives up, in a barrier, after the log said that training is over."""
    if logged.ranks != (0,) or not all(w.barrier and w.operation for w in logged.waits):
        return False
    return any(words.phase is Phase.SHUTDOWN for words in last_line_phases(facts))


def _last_barrier(facts: Facts, logged: LoggedWaits) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say("possible: rank 0 entered a barrier after the training that no other rank enters"),
        whole=False,
        ranks=(0,),
        nodes=hosts_of(facts, (0,)),
        phase=Phase.SHUTDOWN,
        because=(
            say("an all-reduce of one element is a barrier"),
            say("training was over and no other rank waits: they have gone around it, or left"),
        ),
        evidence=(
            *(w.evidence for w in logged.waits[:2]),
            *(words.evidence for words in last_line_phases(facts) if words.phase is Phase.SHUTDOWN),
        ),
        remedies=(remedy("call-everywhere-write-once"),),
    )
