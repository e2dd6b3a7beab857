"""uneven-data: the program lets the rank say how many steps it makes, and the ranks part there.

What happens: the header of the loop, or a `break` or `return` in it, asks for the rank and for the number of the step.
Why it hangs: who leaves first goes on to a barrier, a save or the end; the others wait in the next step's collective.
Example: `if step >= n + 40 * (1 - rank): break`; `if rank == 0 and step == n: return`; `while step < limit[rank]:`.
Fix: give every rank the same number of steps: take the rank out of that test; or stop together (`unhang.even_batches`,
an all-reduced flag).
Certain when: one camp stands behind the loop in which the other waits, the rank goes into that test, and everything
else in it is known before the loop begins or counts its rounds.
Likely when: only a name suggests that the test asks for the rank, or the data may have ended there as well.
Possible when: never; without source there is no answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.left_by_rank import LeftByRank, left_by_rank
from unhang.facts.model import Disagreement, Facts
from unhang.findings import Call, Cause, Certainty, Remedy, Text, say
from unhang.rules.even_remedies import leave_together, same_batches
from unhang.rules.evidence_lines import call_of, calls_of, group_label, hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNEVEN_DATA


def check(facts: Facts) -> Iterator[Answer]:
    """One camp past the loop, the other inside it, and the rank says how often it runs."""
    for left in left_by_rank(facts):
        yield _found(facts, left)


def _found(facts: Facts, left: LeftByRank) -> Answer:
    past, inside = left.past, left.inside
    return finding(
        CAUSE,
        Certainty.CERTAIN if left.bound.sure and left.bound.alone else Certainty.LIKELY,
        say(
            "{ranks:who} {ranks:makes|make} fewer steps than the others: line {line} lets the rank say how many",
            ranks=past.ranks,
            line=left.bound.line,
        ),
        ranks=past.ranks,
        nodes=hosts_of(facts, past.ranks),
        group=group_label(facts, left.told_by.group),
        phase=past.phase,
        where=past.where,
        waiter_where=inside.where,
        calls=_calls(left),
        because=tuple(_because(left)),
        evidence=tuple(camp.evidence for camp in (past, inside) if camp.evidence is not None),
        remedies=tuple(_remedies(facts, left)),
    )


def _calls(left: LeftByRank) -> tuple[Call, ...]:
    told_by = left.told_by
    return calls_of(told_by) if isinstance(told_by, Disagreement) else call_of(told_by.direct_waiters, told_by.call)


def _because(left: LeftByRank) -> Iterator[Text]:
    past, inside, bound = left.past, left.inside, left.bound
    if past.ended:
        yield say("{ranks:who} {ranks:has|have} ended with exit code 0, as if all were done", ranks=past.ranks)
    elif past.where is not None:
        yield say(
            "{ranks:who} {ranks:stands|stand} at line {line}, after the loop", ranks=past.ranks, line=past.where.line
        )
    if inside.where is not None:
        yield say(
            "{ranks:who} {ranks:waits|wait} at line {line}, inside the loop that starts at line {loop}",
            ranks=inside.ranks,
            line=inside.where.line,
            loop=left.loop.line,
        )
    if bound.kind == "loop":
        yield say("the loop at line {line} runs as often as the rank says: `{test}`", line=bound.line, test=bound.test)
    else:
        yield say(
            "line {line} leaves the loop ({jump}) in a step that depends on the rank: `{test}`",
            line=bound.line,
            jump=bound.kind,
            test=bound.test,
        )
    if not bound.alone:
        yield say("its data may have ended earlier on one rank too: the header of the loop does not exclude it")


def _remedies(facts: Facts, left: LeftByRank) -> Iterator[Remedy]:
    """A count in a header may be that of a rank's part of the data; a jump over data may have come after its end."""
    yield _same_number(left)
    if left.bound.kind == "loop":
        yield same_batches()
    elif not left.bound.alone:
        yield leave_together(facts, left.loop)


def _same_number(left: LeftByRank) -> Remedy:
    return remedy("let-all-ranks-make-the-same-number", file=left.loop.file, line=left.bound.line, test=left.bound.test)
