"""Other nodes were not asked.

What happens: the job is planned on several nodes, and only one of them was looked at.

Why it hangs: a node with other code, versions or settings than the rest is found by comparing, never alone.

Example: ``unhang check -- torchrun --nnodes 4 …`` typed on the first node.

Fix: start the check as the job is started, on all nodes.

Certain when: never; this is a question left open.

Possible when: never; it is only said that nobody looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.risks.risk import Answer
from unhang.check.risks.sameness.same_lines import CHECK
from unhang.check.sameness.sameness import NodeFingerprint
from unhang.findings import NotChecked
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Say that there was nothing to compare with, where the job spans more."""
    if len(situations) != 1:
        return
    belongings = situations[0].found(NodeFingerprint)
    if belongings is not None and belongings.others:
        what = say("Whether the other nodes bring the same code, versions and settings")
        because = say("only this node was asked")
        yield NotChecked(what, because, "srun --ntasks-per-node=1 unhang check --dir SHARED -- CMD", check=CHECK)
