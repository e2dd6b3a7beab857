"""A collective of the probe that finished with a wrong result.

What happens: the numbers sent are known, and what arrived is not their sum or copy.

Why it hangs: it does not; training goes on with wrong gradients on some ranks, which then part ways: one stops early,
skips a step, or gets a NaN, and the others wait for it.

Example: a card, a link or an IOMMU that corrupts what passes through it; direct transfers in a virtual
machine with ACS.

Fix: take the node out; where direct transfers are to blame, `unhang bisect` names the setting.

Certain when: never; that the result is wrong is seen, which part of the machine did it is not.

Possible when: NCCL; nothing of it was run where this was written.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.probe_results.probe_results import ProbeResult
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "probe"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Name the operation and the ranks with wrong results."""
    probed = here.found(ProbeResult)
    if probed is None:
        return
    wrong = [step for step in probed.steps if step.wrong]
    if not wrong and any(step.call_s for step in probed.steps):
        yield PassedCheck(CHECK, say("every result was right"))
    if not wrong:
        return
    ranks = tuple(sorted({rank for step in wrong for rank in step.wrong}))
    first = wrong[0]
    yield risk(
        CHECK,
        first.operation,
        Cause.GPU_HARDWARE if probed.backend == "nccl" else Cause.NETWORK_FAULT,
        say(
            "{operation} of {size} KB gave {ranks:who} a wrong result",
            operation=first.operation,
            size=first.size >> 10,
            ranks=first.wrong,
        ),
        certainty=Certainty.POSSIBLE if probed.backend == "nccl" else Certainty.LIKELY,
        ranks=ranks,
        nodes=tuple(dict.fromkeys(probed.nodes[rank] for rank in ranks)) if probed.several_nodes else (),
        because=(say("{count} steps gave wrong results on {ranks:who}", count=len(wrong), ranks=ranks),),
        remedies=(
            Remedy(
                say("Take these cards or nodes out and have them tested"),
                RemedyKind.INFRASTRUCTURE,
                say("dcgmi diag -r 3 on the node"),
                say("these cards, until they are repaired"),
                say("unhang check --only probe without them"),
            ),
        ),
    )
