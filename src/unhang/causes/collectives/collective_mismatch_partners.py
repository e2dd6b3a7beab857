"""collective-mismatch: of sends and receives: a call of one side has no other half.

What happens: a rank is past its sends, in a collective or at its end; its partner is in a receive that nobody answers.
Why it hangs: the partner waits for a send that is not in the program's way, and the rank for the partner further down.
Example: `dist.recv(scale, src=0)` on rank 1 for which rank 0 has no `dist.send`, and rank 0 in `dist.barrier()`.
Fix: as many sends as receives between each two ranks, in one order.
Certain when: never: Gloo counts no sends, and who partners a send is read from the line that calls.
Possible when: likely, where the line of the call that waits names the partner and no loop is around it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import Answer, signal
from unhang.causes.wording.p2p_reasons import parts_of, summary_of
from unhang.facts.divergence.unmatched_p2p import left_partners
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade

CAUSE = Cause.COLLECTIVE_MISMATCH


def check(facts: Facts) -> Iterator[Answer]:
    """Partners that went on, where no loop makes the numbers of rounds differ."""
    for found in left_partners(facts):
        if not found.in_a_loop:
            yield signal(CAUSE, Grade.SOURCE, summary_of(found), **parts_of(facts, found))
