"""Nodes run different versions.

What happens: a node has another torch, NCCL, driver or library than the others.

Why it hangs: NCCL refuses or misreads a neighbour of another version; a library of another release calls other
collectives, and the ranks wait for each other in different ones.

Example: one node was reinstalled and has torch 2.8 with NCCL 2.27, the others torch 2.7 with NCCL 2.26.

Fix: the same image or environment on every node.

Certain when: never before the job runs.

Possible when: only the driver, Python's last number or a library that calls no collectives itself differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK, evidence, few, told
from unhang.check.sameness.sameness import (
    NodeDifference,
    NodeFingerprint,
    RankStart,
    compared_count,
    differences,
    starts_of,
    values_by_ranks,
)
from unhang.findings import Cause, Certainty, Finding, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

_SPEAK = {"torch", "nccl", "cuda", "deepspeed", "accelerate", "transformers", "trl", "lightning"}
"""They speak to the other ranks, or decide what is spoken."""


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """One finding a package, between nodes as installed and between ranks as loaded."""
    found = differences(situations, _versions)
    yield from (_finding(difference) for difference in found)
    if compared_count(situations) > 1 and not found:
        yield PassedCheck(CHECK, say("the same versions everywhere"))
    starts = starts_of(situations)
    for name in sorted({name for start in starts for name in start.versions} - {d.name for d in found}):
        if len({start.versions.get(name, "") for start in starts}) > 1:
            yield _of_ranks(name, values_by_ranks(starts, _version_of(name)))


def _version_of(name: str) -> Callable[[RankStart], str]:
    return lambda start: start.versions.get(name, "?")


def _versions(belongings: NodeFingerprint) -> dict[str, str]:
    return dict(belongings.versions)


def _remedy() -> Remedy:
    return Remedy(
        say("Give every node the same environment"),
        RemedyKind.INFRASTRUCTURE,
        say("one container image, or one environment on a shared file system"),
        say("an installation"),
        say("srun unhang check --only sameness"),
    )


def _finding(difference: NodeDifference) -> Finding:
    speaks = difference.name in _SPEAK
    return risk(
        CHECK,
        difference.name,
        Cause.VERSION_MISMATCH,
        say("{package} is another version on {places}", package=difference.name, places=few(difference.outliers)),
        severity=Severity.STOPS if speaks else Severity.NOTE,
        certainty=Certainty.LIKELY if speaks else Certainty.POSSIBLE,
        nodes=difference.outliers,
        because=tuple(told(difference)),
        evidence=evidence(difference),
        remedies=(_remedy(),),
    )


def _of_ranks(name: str, values: str) -> Finding:
    speaks = name in _SPEAK
    return risk(
        CHECK,
        name,
        Cause.VERSION_MISMATCH,
        say("Ranks load different versions of {package}: {values}", package=name, values=values),
        severity=Severity.STOPS if speaks else Severity.NOTE,
        certainty=Certainty.LIKELY if speaks else Certainty.POSSIBLE,
        remedies=(_remedy(),),
    )
