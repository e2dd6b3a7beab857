"""uneven-data: of sends and receives: one side makes fewer rounds of them than the other.

What happens: a rank is past its sends, in a collective, in its receives or at its end; its partner still receives.
Why it hangs: the partner waits for a send that never comes, and the rank for the partner to join it further down.
Example: four micro-batches on stages 0, 1 and 3 of a pipeline, three on stage 2, then `dist.barrier()`.
Fix: the same number of micro-batches on each stage; let all stages skip one, or none.
Certain when: never: Gloo counts no sends, and who partners a send is read from the line that calls.
Possible when: likely, where the call that waits stands in a loop in the source, and its line names the partner.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.wording.p2p_reasons import unmatched_parts, unmatched_summary
from unhang.facts.divergence.unmatched_p2p import unmatched_p2p
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade

CAUSE = Cause.UNEVEN_DATA


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Partners that went on while the others go through more rounds."""
    for found in unmatched_p2p(facts):
        if found.in_a_loop:
            yield make_signal(CAUSE, Grade.SOURCE, unmatched_summary(found), **unmatched_parts(facts, found))
