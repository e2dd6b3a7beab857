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

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.wording.p2p_reasons import unmatched_parts, unmatched_summary
from unhang.facts.divergence.unmatched_p2p import unmatched_p2p
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade

CAUSE = Cause.COLLECTIVE_MISMATCH


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Partners that went on, where no loop makes the numbers of rounds differ."""
    for found in unmatched_p2p(facts):
        if not found.in_a_loop:
            yield make_signal(CAUSE, Grade.SOURCE, unmatched_summary(found), **unmatched_parts(facts, found))
