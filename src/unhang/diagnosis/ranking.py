"""Which finding leads, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unhang.diagnosis.explaining import explains, leads_whatever
from unhang.findings import Cause, Certainty, Consequence, Finding, Severity

# Among findings of equal certainty about the same ranks: what ended or froze a process explains what it then did not
# do; an order or mismatch explains why a rank stands where it stands.
PRECEDENCE = (
    Cause.GPU_HARDWARE,
    Cause.GPU_OOM,
    Cause.HOST_MEMORY,
    Cause.RANK_CRASHED,
    Cause.RANK_FROZEN,
    Cause.DEVICE_MAPPING,
    Cause.VERSION_MISMATCH,
    Cause.RENDEZVOUS,
    Cause.NETWORK_CONFIG,
    Cause.NETWORK_FAULT,
    Cause.P2P_BROKEN,
    Cause.DEADLOCK_ORDER,
    Cause.TIMEOUT_TOO_SHORT,
    Cause.RANK_CONDITIONAL_COLLECTIVE,
    Cause.UNEVEN_DATA,
    Cause.COLLECTIVE_MISMATCH,
    Cause.SLOW_DATA_LOADING,
    Cause.SINGLE_RANK_WORK,
    Cause.SLOW_RANK,
    Cause.UNKNOWN,
)


MOST_ROOTS = 32
"""So many findings, the strongest, may explain others: a job of a thousand groups has as many findings."""


def rank_findings(findings: Sequence[Finding], limit: Certainty) -> tuple[Finding, ...]:
    """Most certain first; on a tie the one that explains more ranks, then the root before what follows from it.

    ``unknown`` leads only where nothing better than *possible* explains the same stall.
    """
    capped = [replace(f, certainty=f.certainty.capped(limit)) for f in findings]
    ordered = sorted(_without_answered_unknowns(capped), key=_order)
    followed = [
        f for f in ordered if any(leads_whatever(other, f) or _leads_to(other, f) for other in ordered[:MOST_ROOTS])
    ]
    return tuple(_merge([f for f in ordered if f not in followed] + followed))


def _leads_to(root: Finding, other: Finding) -> bool:
    """``other`` follows from ``root`` and is not better known than it."""
    return root.cause is not other.cause and root.certainty.order >= other.certainty.order and explains(root, other)


def _order(finding: Finding) -> tuple[object, ...]:
    unknown_but_guessed = finding.cause is Cause.UNKNOWN and finding.certainty is Certainty.POSSIBLE
    return (
        finding.severity is Severity.NOTE,
        -finding.certainty.order,
        unknown_but_guessed,
        PRECEDENCE.index(finding.cause) if _is_root(finding) else len(PRECEDENCE),
        -(finding.grade or 0),
        not finding.ranks,
        PRECEDENCE.index(finding.cause),
        finding.ranks,
        str(finding.summary),
    )


def _is_root(finding: Finding) -> bool:
    """What ended or froze a process leads over what its absence did to others."""
    return PRECEDENCE.index(finding.cause) <= PRECEDENCE.index(Cause.RANK_FROZEN)


def _without_answered_unknowns(findings: list[Finding]) -> list[Finding]:
    """An ``unknown`` about ranks or a group that another finding explains well is answered."""
    known = [f for f in findings if f.cause is not Cause.UNKNOWN and f.certainty is not Certainty.POSSIBLE]
    return [f for f in findings if f.cause is not Cause.UNKNOWN or not any(_answers(k, f) for k in known)]


def _answers(known: Finding, unknown: Finding) -> bool:
    if known.severity is Severity.NOTE:
        return False
    if not unknown.ranks or not known.ranks:
        return True
    if set(known.ranks) & set(unknown.ranks) or known.group == unknown.group:
        return True
    # The guilty ranks of one stall are often among the waiters of another: one root explains both.
    return any(set(unknown.ranks) <= set(c.ranks) for c in known.consequences)


def _merge(ordered: list[Finding]) -> list[Finding]:
    """The same cause at the same place once; a second finding of the leading cause's ranks becomes its consequence."""
    kept: list[Finding] = []
    for finding in ordered:
        twin = next((i for i, k in enumerate(kept) if _same(k, finding)), None)
        if twin is not None:
            kept[twin] = _join(kept[twin], finding)
            continue
        root = next((i for i, k in enumerate(kept[:MOST_ROOTS]) if explains(k, finding)), None)
        if root is not None:
            consequence = Consequence(finding.cause, finding.ranks, max(len(finding.ranks), 1), finding.summary)
            kept[root] = replace(kept[root], consequences=(*kept[root].consequences, consequence))
            continue
        kept.append(finding)
    return kept


def _same(first: Finding, second: Finding) -> bool:
    if first.cause is not second.cause:
        return False
    if not (first.ranks or second.ranks or first.where or second.where):
        return True
    same_place = first.where is not None and first.where == second.where
    return same_place or bool(set(first.ranks) & set(second.ranks))


def _join(first: Finding, second: Finding) -> Finding:
    """The stronger finding with the evidence of both."""
    evidence = tuple(dict.fromkeys((*first.evidence, *second.evidence)))[:8]
    ranks = first.ranks
    if first.where == second.where and first.grade is second.grade:
        ranks = tuple(sorted(set(first.ranks) | set(second.ranks)))
    return replace(first, ranks=ranks, evidence=evidence)
