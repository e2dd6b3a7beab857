"""Memory is nearly used up before the job starts.

What happens: the machine, or the memory group of the container or the Slurm step, is nearly full already.

Why it hangs: the kernel kills the process that asks last, without a word in its log; the others wait for it.

Example: a notebook on the same node holds 200 GB; a container was given 8 GB for eight ranks.

Fix: end what uses the memory, or ask for more (``--mem``, ``--memory``, ``resources.limits.memory``).

Certain when: never before the job runs.

Possible when: less than a tenth, or less than 2 GB, is free.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.machine_limits import MemoryLimit
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.sentences import say

CHECK = "limits"
MIN_FREE = whole_threshold("memory_limit.min_free")
MIN_SHARE = threshold("memory_limit.min_share")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge what is free under the tightest limit."""
    result = here.result(MemoryLimit)
    gap = could_not(CHECK, say("How much memory there is"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    limit, free = result.found.limit, result.found.limit - result.found.used
    parts = {"free": round(free / 2**30, 1), "limit": round(limit / 2**30, 1)}
    if free >= MIN_FREE and free >= MIN_SHARE * limit:
        yield PassedCheck(CHECK, say("{free} of {limit} GB of memory are free", **parts))
        return
    subject = result.found.group or "memory"
    yield risk(
        CHECK,
        subject,
        Cause.HOST_MEMORY,
        say("Only {free} of {limit} GB of memory are free", **parts),
        certainty=Certainty.POSSIBLE,
        remedies=(
            Remedy(
                say("End what uses the memory, or ask for more"),
                RemedyKind.INFRASTRUCTURE,
                say("Slurm: --mem; docker run --memory; Kubernetes: resources.limits.memory"),
                say("memory of the host"),
                say("unhang check --only limits"),
            ),
        ),
    )
