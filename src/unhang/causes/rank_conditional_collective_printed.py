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

from unhang.facts.fingerprints import PrintedMismatch, printed_mismatch
from unhang.facts.last_words import last_words
from unhang.facts.log_waits import Incident, incident_of
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt, quotes, ranks_in
from unhang.facts.shifted import Shift, odd_side, shifted
from unhang.findings import Call, Cause, Certainty, Evidence, Phase, Remedy, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def check(facts: Facts) -> Iterator[Answer]:
    """Printed calls of different work, parameters without gradient, shifted calls, rank 0 alone in the last barrier."""
    if any(known.recording is not None for known in facts.ranks.values()):
        return
    printed = printed_mismatch(facts)
    if printed is not None and "operation" in printed.differs_in and printed.side_work:
        yield _other_work(facts, printed)
        return
    unused = first_attempt(facts.events_of("ddp.unused"))
    if unused:
        yield _unused(ranks_in(unused), quotes(unused))
        return
    shift = shifted(facts)
    incident = incident_of(facts)
    if shift is not None and not facts.disagreements:
        yield _shifted(facts, shift)
    elif incident is not None and _alone_at_the_end(facts, incident):
        yield _last_barrier(facts, incident)


def _other_work(facts: Facts, printed: PrintedMismatch) -> Answer:
    doing = printed.phase.value if printed.phase is not None else "other"
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say(
            "{ranks:who} {ranks:calls|call} a collective in its {doing} part; the others are elsewhere",
            ranks=printed.side_work,
            doing=doing,
        ),
        ranks=printed.side_work,
        nodes=hosts_of(facts, printed.side_work),
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
        remedies=(_all_ranks(),),
    )


def _unused(ranks: tuple[int, ...], evidence: tuple[Evidence, ...]) -> Answer:
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say("some parameters got no gradient on a rank, so DDP's buckets never complete there"),
        ranks=ranks,
        because=(say("torch says so; which parameters a batch uses depends on the rank's data"),),
        evidence=evidence,
        remedies=(_all_parameters(),),
    )


def _shifted(facts: Facts, shift: Shift) -> Answer:
    behind = tuple(sorted({w.rank for w in shift.behind if w.rank is not None}))
    ahead = tuple(sorted({w.rank for w in shift.ahead if w.rank is not None}))
    few, many = (tuple(sorted({w.rank for w in side if w.rank is not None})) for side in odd_side(shift))
    named = all(w.group != "0" for w in (*shift.behind, *shift.ahead))
    return finding(
        CAUSE,
        Certainty.LIKELY if named else Certainty.POSSIBLE,
        say(
            "{behind:who} {behind:is|are} {by} calls off against {ahead:who}, "
            "although nobody can pass such a call alone",
            behind=few,
            by=shift.by,
            ahead=many,
        ),
        ranks=few,
        nodes=hosts_of(facts, few),
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
        remedies=(_all_ranks(),),
    )


def _alone_at_the_end(facts: Facts, incident: Incident) -> bool:
    """Only rank 0 gives up, in a barrier, after the log said that training is over."""
    if incident.ranks != (0,) or not all(w.barrier and w.operation for w in incident.waits):
        return False
    return any(words.phase is Phase.SHUTDOWN for words in last_words(facts))


def _last_barrier(facts: Facts, incident: Incident) -> Answer:
    return finding(
        CAUSE,
        Certainty.POSSIBLE,
        say("possible: rank 0 entered a barrier after the training that no other rank enters"),
        ranks=(0,),
        nodes=hosts_of(facts, (0,)),
        phase=Phase.SHUTDOWN,
        because=(
            say("an all-reduce of one element is a barrier"),
            say("training was over and no other rank waits: they have gone around it, or left"),
        ),
        evidence=(
            *(w.evidence for w in incident.waits[:2]),
            *(words.evidence for words in last_words(facts) if words.phase is Phase.SHUTDOWN),
        ),
        remedies=(_all_ranks(),),
    )


def _all_ranks() -> Remedy:
    return remedy("let-every-rank-make-the-call-and")


def _all_parameters() -> Remedy:
    return remedy("let-every-parameter-take-part-in-every-2")
