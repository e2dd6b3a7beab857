"""A variable of torch's old NCCL backend under the rewritten one.

What happens: torch 2.15 makes ``nccl2`` the default backend. What its headers speak of is known; for the other watchdog
variables of the old backend nothing says whether they are read.

Why it hangs: it does not; a limit or a switch that somebody relies on may have no effect.

Example: ``TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=3600`` under torch 2.15.

Fix: ``TORCH_DIST_USE_NCCL2=0`` brings the old backend back; or see in a short run whether it has the effect.

Certain when: never; it could not be looked at.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer
from unhang.check.risks.variables.variable_families import CHECK, judged
from unhang.findings import NotChecked
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.variable_support import VariableSupport
from unhang.sentences import say


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One gap for each such variable."""
    for one in judged(here):
        if one.standing is VariableSupport.NOT_KNOWN:
            yield NotChecked(
                say("Whether {name} has an effect", name=one.setting.name),
                say(
                    "torch {version} uses the rewritten backend nccl2, and nothing says that it reads this",
                    version=one.version or "2.15",
                ),
                "TORCH_DIST_USE_NCCL2=0",
                check=CHECK,
            )
