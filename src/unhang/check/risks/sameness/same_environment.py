"""Nodes or ranks have different settings.

What happens: a variable of NCCL, torch, CUDA or the launcher has another value, or none, on some of them.

Why it hangs: ranks that choose another transport, protocol or address do not find each other; another limit ends one
rank before the others.

Example: ``NCCL_IB_DISABLE=1`` stands in the ``.bashrc`` of one node only.

Fix: set it in one place, through the launcher.

Certain when: never before the job runs.

Possible when: the name of an interface or a device differs, as it may between unlike machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK, evidence, few, told
from unhang.check.sameness.sameness import NodeDifference, NodeFingerprint, compared_count, differences
from unhang.findings import Cause, Certainty, Finding, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

_MACHINES_OWN = ("IFNAME", "_HCA", "NET_DEVICES", "_GID_INDEX", "TOPO_FILE", "LOCAL_WORLD_SIZE", "DEBUG", "_FILE")
_SPEAK = ("NCCL_", "TORCH_", "GLOO_", "MASTER_", "WORLD_SIZE", "UCX_", "FI_", "OFI_")
_MEETING = ("MASTER_", "WORLD_SIZE")


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """One finding a variable."""
    found = differences(situations, _environment)
    yield from (_finding(difference) for difference in found)
    if compared_count(situations) > 1 and not found:
        yield PassedCheck(CHECK, say("the same settings everywhere"))


def _environment(belongings: NodeFingerprint) -> dict[str, str]:
    return dict(belongings.environment)


def _finding(difference: NodeDifference) -> Finding:
    own = any(part in difference.name for part in _MACHINES_OWN)
    stops = difference.name.startswith(_SPEAK) and not own
    return risk(
        CHECK,
        difference.name,
        Cause.RENDEZVOUS if difference.name.startswith(_MEETING) else Cause.NETWORK_CONFIG,
        say("{name} is set differently on {places}", name=difference.name, places=few(difference.outliers)),
        severity=Severity.STOPS if stops else Severity.NOTE,
        certainty=Certainty.LIKELY if stops else Certainty.POSSIBLE,
        nodes=difference.outliers,
        because=tuple(told(difference)),
        evidence=evidence(difference),
        remedies=(
            Remedy(
                say("Set it through the launcher, for all alike"),
                RemedyKind.ENVIRONMENT,
                say("srun --export=ALL,{name}=…, mpirun -x {name}, or the job's own script", name=difference.name),
                say("none"),
                say("srun unhang check --only sameness"),
            ),
        ),
    )
