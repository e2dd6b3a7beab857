"""Which finding leads, and what follows from it (the table is ``knowledge/reasoning/causes.toml``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unhang.diagnosis.grades import is_guess, names_cause
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Consequence, Ending, Finding, Grade, RemedyKind, Severity, Verdict
from unhang.knowledge.reasoning_rows import When, cause_rows, causes_that, precedence, strength

MAX_ROOTS = 32
"""So many findings, the strongest, may explain others: a job of a thousand groups has as many findings."""


def join_rank_and_explain_away(_: Facts, verdict: Verdict) -> Verdict:
    """Makes one list of the findings.

    - **Answer**: an ``unknown`` is answered by any finding that is *likely* and speaks of the same ranks, one by
      ``EXCLUSION`` by any at all.
    - **Order**: more certain first; on a tie what ended or froze a process, then the stronger grade, then who names
      ranks, then the order of the causes (``knowledge/reasoning/causes.toml``).
    - **Join**: findings of one cause that share ranks or the place are one, and so are two of which one names no rank,
      unless group, node, place or severity contradict: detectors look at the first attempt alone, so both speak of one
      incident. The one that names ranks speaks, the other adds evidence, changes and consequences. Ranks that are only
      *possible* stay apart from a *likely* finding without any.
    - **Explain away** (the same table): what a stronger finding explains becomes its consequence, and
      what follows from that as well. A process that died explains timeouts and resets of its partners; a crash whose
      own lines name a reason follows from that reason.
    """
    return replace(verdict, findings=rank_findings(verdict.findings))


def rank_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Most certain first, the root before what follows from it, each once."""
    ordered = _joined(sorted(_without_answered_unknowns(findings), key=_most_certain_first))
    return tuple(_nested(_behind_their_roots(ordered)))


def _behind_their_roots(ordered: list[Finding]) -> list[Finding]:
    """In the same order, but each behind all that it follows from."""
    placed: list[Finding] = []
    waiting = ordered
    while waiting:
        free = [f for f in waiting if not any(_leads_to(other, f) for other in waiting[:MAX_ROOTS] if other is not f)]
        free = free or waiting[:1]  # each follows from another
        placed += free
        gone = {id(f) for f in free}
        waiting = [f for f in waiting if id(f) not in gone]
    return placed


def _leads_to(root: Finding, other: Finding) -> bool:
    """``other`` follows from ``root``, and is not better known than it unless that changes nothing."""
    if _leads_despite_certainty(root, other):
        return True
    return root.cause is not other.cause and root.certainty.order >= other.certainty.order and _explains(root, other)


def _most_certain_first(finding: Finding) -> tuple[object, ...]:
    return finding.severity is Severity.NOTE, *_order(finding)


def most_severe_first(finding: Finding) -> tuple[object, ...]:
    """The order where nothing has happened yet: what would stop the job, what would slow it, notes."""
    return (Severity.STOPS, Severity.SLOWS, Severity.NOTE).index(finding.severity), *_order(finding)


def _order(finding: Finding) -> tuple[object, ...]:
    return (
        -finding.certainty.order,
        finding.check,
        finding.subject,
        is_guess(finding),
        precedence(finding.cause) if finding.cause in causes_that("takes-a-process") else len(Cause),
        0 if finding.grade is None else -strength(finding.grade),
        not finding.ranks,
        precedence(finding.cause),
        finding.ranks,
        str(finding.summary),
    )


def _without_answered_unknowns(findings: Sequence[Finding]) -> list[Finding]:
    """An ``unknown`` about ranks or a group that another finding explains well is answered; one by exclusion by any."""
    findings = [f for f in findings if f.grade is not Grade.EXCLUSION] or findings
    known = [f for f in findings if names_cause(f)]
    return [f for f in findings if f.cause is not Cause.UNKNOWN or not any(_answers(k, f) for k in known)]


def _answers(known: Finding, unknown: Finding) -> bool:
    if known.severity is Severity.NOTE:
        return False
    if not unknown.ranks or not known.ranks or known.world != unknown.world:
        return True
    if set(known.ranks) & set(unknown.ranks) or known.group == unknown.group:
        return True
    # The laggards of one stall are often among the waiters of another: one root explains both.
    return any(set(unknown.ranks) <= set(c.ranks) for c in known.consequences)


def _joined(ordered: list[Finding]) -> list[Finding]:
    """What several detectors say of one cause in one stall, once."""
    kept: list[Finding] = []
    for finding in ordered:
        twin = next((i for i, k in enumerate(kept) if _same(k, finding)), None)
        if twin is None:
            kept.append(finding)
        else:
            kept[twin] = _join(kept[twin], finding)
    return kept


def _nested(ordered: list[Finding]) -> list[Finding]:
    """What another finding explains becomes its consequence; what follows from a consequence follows from its root."""
    kept: list[Finding] = []
    root_of: list[int] = []
    for at, finding in enumerate(ordered):
        before = enumerate(ordered[: min(at, MAX_ROOTS)])
        explainer = next((i for i, other in before if _explains(other, finding)), None)
        if explainer is None:
            root_of.append(len(kept))
            kept.append(finding)
            continue
        root = root_of[explainer]
        root_of.append(root)
        consequence = Consequence(finding.cause, finding.ranks, max(len(finding.ranks), 1), finding.summary)
        kept[root] = replace(kept[root], consequences=(*kept[root].consequences, consequence))
    return kept


def _same(first: Finding, second: Finding) -> bool:
    """Two findings of one cause that share ranks or the place are one. So are two of which one names no rank at all and
    that do not contradict each other: detectors look at the first attempt alone, so both speak of one stall, and
    who leaves out the rank had only the other line. Ranks that are only *possible* name nobody in a *likely* finding.
    """
    if first.cause is not second.cause or first.world != second.world:
        return False
    if first.where is not None and first.where == second.where:
        return True
    if first.ranks and second.ranks:
        return bool(set(first.ranks) & set(second.ranks))
    if not (first.ranks or second.ranks or first.where or second.where):
        return True
    lends_ranks = bool(second.ranks) and first.certainty is not second.certainty
    return not lends_ranks and not _contradict(first, second)


def _contradict(first: Finding, second: Finding) -> bool:
    """They do other things to the job, in other groups, on other nodes or at other places."""
    told = ((first.group, second.group), (first.where, second.where))
    elsewhere = bool(first.nodes and second.nodes) and not set(first.nodes) & set(second.nodes)
    return elsewhere or first.severity is not second.severity or any(a and b and a != b for a, b in told)


def _join(first: Finding, second: Finding) -> Finding:
    """The stronger finding, of two that are alike the one that names ranks, with what else the other shows."""
    if not first.ranks and second.ranks:
        first, second = second, first
    ranks = first.ranks
    if first.where == second.where and first.grade is second.grade:
        ranks = tuple(sorted({*first.ranks, *second.ranks}))
    told = {str(remedy.title) for remedy in first.remedies}
    changes = (remedy for remedy in second.remedies if remedy.kind is not RemedyKind.COLLECT)
    return replace(
        first,
        ranks=ranks,
        nodes=first.nodes or second.nodes,
        where=first.where or (second.where if first.certainty is second.certainty else None),
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence)))[:8],
        remedies=(*first.remedies, *(remedy for remedy in changes if str(remedy.title) not in told)),
        consequences=tuple(dict.fromkeys((*first.consequences, *second.consequences))),
    )


def _explains(root: Finding, other: Finding) -> bool:
    """``other`` tells what follows from ``root``, which is *likely* at least."""
    if root.certainty is Certainty.POSSIBLE or root.severity is Severity.NOTE or root.world != other.world:
        return False
    if _leads_despite_certainty(root, other):
        return True
    if other.ending is Ending.FROM_OUTSIDE and root.cause in causes_that("kills"):
        return True
    if root.ending is Ending.NAMED and other.cause not in causes_that("no-reason"):
        return False
    alike = root.cause is other.cause or _follows(root, other, "same-ranks")
    return alike and bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def _leads_despite_certainty(root: Finding, other: Finding) -> bool:
    """``root`` is why ``other`` is so, also where that is the more certain of the two: a process ended for the reason
    that ``root`` names, its partners lost their connections, or ranks that it took elsewhere are in other calls."""
    if root.severity is not other.severity or root.world != other.world:
        return False
    if other.ending is Ending.NAMED:
        return root.cause not in causes_that("no-reason")
    if root.certainty is Certainty.POSSIBLE:
        return False
    if _follows(root, other, "complaint"):
        reason = root.ending is Ending.NAMED and bool(other.ranks) and set(other.ranks) <= set(root.ranks)
        return bool(other.evidence) and other.grade is not Grade.KERNEL and not reason
    if _follows(root, other, "same-group"):
        return root.group == other.group
    if _follows(root, other, "among-its-ranks"):
        return set(root.ranks) <= set(other.ranks)
    return other.cause is Cause.RANK_CRASHED and root.cause in causes_that("kills") and _of_the_same_lines(root, other)


def _follows(root: Finding, other: Finding, when: When) -> bool:
    return other.cause in cause_rows()[root.cause].explains.get(when, ())


def _of_the_same_lines(root: Finding, crash: Finding) -> bool:
    """The crash was told by a line that also names its reason."""
    told = {(item.source.path, item.source.line) for item in crash.evidence if item.source.line is not None}
    return any((item.source.path, item.source.line) in told for item in root.evidence)
