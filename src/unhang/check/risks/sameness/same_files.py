"""Nodes hold different code or configuration.

What happens: a file of the program, or a configuration file the command names, is not the same on every node.

Why it hangs: ranks run different programs: other collectives, another number of steps, another batch; one waits in a
call that the other never makes.

Example: the code lies on local disks and one node was not updated after the last edit.

Fix: one copy on a shared file system, or a copy step before the start.

Certain when: never; the difference may be a comment.

Possible when: always, where a difference is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK, evidence, few, told
from unhang.check.sameness.sameness import NodeDifference, NodeFingerprint, compared_count, differences
from unhang.findings import Cause, Finding, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """One finding a file."""
    found = differences(situations, _files)
    yield from (_finding(difference) for difference in found)
    files = max((len(_files(b)) for s in situations if (b := s.found(NodeFingerprint)) is not None), default=0)
    if compared_count(situations) > 1 and files and not found:
        yield PassedCheck(CHECK, say("the same code and configuration everywhere ({count} files)", count=files))


def _files(belongings: NodeFingerprint) -> dict[str, str]:
    return {**belongings.program, **belongings.configuration}


def _finding(difference: NodeDifference) -> Finding:
    return risk(
        CHECK,
        difference.name,
        Cause.COLLECTIVE_MISMATCH,
        say("{file} is another file on {places}", file=difference.name, places=few(difference.outliers)),
        nodes=difference.outliers,
        because=tuple(told(difference)),
        evidence=evidence(difference),
        remedies=(
            Remedy(
                say("Start every rank from the same copy"),
                RemedyKind.INFRASTRUCTURE,
                say("a shared file system, or sbcast/rsync before the start"),
                say("seconds at the start"),
                say("srun unhang check --only sameness -- CMD"),
            ),
        ),
    )
