"""Locked memory is limited on a machine with RDMA.

What happens: InfiniBand and RoCE register the buffers they send from, and registered memory is locked. A small limit
makes the registration fail (``ibv_reg_mr``, ``Cannot allocate memory``).

Why it hangs: NCCL fails on the rank that runs out first; the others wait for it.

Example: ``ulimit -l`` says 64 in a container or under a Slurm daemon that was started with the default limit.

Fix: ``ulimit -l unlimited``; ``docker run --ulimit memlock=-1``; ``LimitMEMLOCK=infinity`` for slurmd.

Certain when: never before the job runs; how much it registers depends on the number of channels.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.machine_limits import ProcessLimits, RdmaDevices
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import whole_threshold
from unhang.sentences import say

CHECK = "limits"
ENOUGH = whole_threshold("locked_memory.enough")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the limit, where there is RDMA."""
    result, devices = here.result(ProcessLimits), here.found(RdmaDevices)
    gap = could_not(CHECK, say("How much memory may be locked"), result)
    if gap is not None:
        yield gap
    if result.found is None or devices is None or not devices.names:
        return
    limit = result.found.locked_memory
    if limit is None or limit >= ENOUGH:
        yield PassedCheck(CHECK, say("enough memory may be locked for RDMA"))
        return
    yield risk(
        CHECK,
        "memlock",
        Cause.NETWORK_CONFIG,
        say("Only {size} KB of memory may be locked; RDMA registers its buffers there", size=limit >> 10),
        remedies=(
            Remedy(
                say("Lift the limit on locked memory"),
                RemedyKind.INFRASTRUCTURE,
                say("ulimit -l unlimited; docker run --ulimit memlock=-1; LimitMEMLOCK=infinity for slurmd"),
                say("none"),
                say("ulimit -l in the job's own shell says unlimited"),
            ),
        ),
    )
