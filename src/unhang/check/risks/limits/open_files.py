"""Few files may be open at once.

What happens: data-loader workers pass tensors as file descriptors, and every connection between ranks is one more.

Why it hangs: a worker fails with ``Too many open files`` or ``received 0 items of ancdata``; its rank falls, the others
wait for it.

Example: ``ulimit -n`` says 256 or 1,024 with many workers and hundreds of ranks.

Fix: ``ulimit -n 65536``, or ``torch.multiprocessing.set_sharing_strategy("file_system")``.

Certain when: never before the job runs.

Possible when: the limit is 1,024 or less.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.machine_limits import ProcessLimits
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import whole_threshold
from unhang.sentences import say

CHECK = "limits"
FEW = whole_threshold("open_files.few")
VERY_FEW = whole_threshold("open_files.very_few")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the limit."""
    limits = here.found(ProcessLimits)
    if limits is None:
        return
    count = limits.open_files
    if count is None or count > FEW:
        yield PassedCheck(CHECK, say("enough files may be open"))
        return
    yield risk(
        CHECK,
        "nofile",
        Cause.RANK_CRASHED,
        say("Only {count} files may be open in one process", count=count),
        certainty=Certainty.POSSIBLE,
        severity=Severity.STOPS if count <= VERY_FEW else Severity.NOTE,
        remedies=(
            Remedy(
                say("Allow more open files"),
                RemedyKind.INFRASTRUCTURE,
                say("ulimit -n 65536 in the shell that starts the job; docker run --ulimit nofile=65536"),
                say("none"),
                say("ulimit -n in the job's own shell says 65536"),
            ),
        ),
    )
