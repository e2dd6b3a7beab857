"""gpu-oom: a rank ran out of accelerator memory; it died, or waits in a handler, and the others wait for it.

What happens: `torch.OutOfMemoryError` on one rank, often only one: longer sequences, another process on its card.
Why it hangs: the rank never joins the next collective; its peers wait until their limit.
Example: rank 2 raises `CUDA out of memory` in backward; ten minutes later every other rank times out in all_reduce.
Fix: less memory per step (batch, sequence, checkpointing) or an even share of the load; free the card of strangers.
Certain when: the out-of-memory exception is recorded with its rank.
Possible when: the memory error comes from NCCL's own set-up, or no rank is known.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, waiters_call
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.model import Facts
from unhang.findings import Cause, Consequence, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.GPU_OOM


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The first own failure is an out-of-memory error of the accelerator."""
    crashes = primary_crashes(facts)
    memory = [c for c in crashes if c.is_gpu_out_of_memory]
    if not memory:
        return
    first = memory[0]
    ranks = tuple(sorted({c.rank for c in memory if c.rank is not None and c.attempt == first.attempt}))
    stall = next((s for s in facts.stalls if set(s.laggards) & set(ranks)), None)
    others = tuple(sorted(set(facts.ranks) - set(ranks)))
    leads = crashes[0] is first or crashes[0].time_s is None
    yield make_signal(
        CAUSE,
        Grade.STATED,
        say("{ranks:who} ran out of GPU memory; the others wait for it", ranks=ranks)
        if ranks
        else say("a process ran out of GPU memory"),
        whole=bool(ranks) and leads,
        ranks=ranks,
        group=group_label(facts, stall.group) if stall else None,
        where=first.where,
        waiter_where=stall.call.where if stall and stall.call else None,
        calls=waiters_call(stall.direct_waiters, stall.call) if stall else (),
        because=(
            say("{exception} is the first failure; what other ranks report follows from it", exception=first.exception),
        ),
        evidence=tuple(c.evidence for c in memory[:3]),
        remedies=(remedy("reduce-gpu-memory"), remedy("enable-expandable-segments")),
        consequences=(
            Consequence(CAUSE, others, len(others), say("{ranks:who} waited for it or were ended", ranks=others)),
        )
        if others
        else (),
    )
