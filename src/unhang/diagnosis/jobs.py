"""A verdict on each job that evidence is of; where a job is of several worlds, one from those on each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from unhang.diagnosis.diagnose import diagnose
from unhang.diagnosis.grades import CERTAINTY, cap_by_gaps, names_cause
from unhang.diagnosis.ranking import rank_findings
from unhang.evidence.evidence_set import EvidenceSet
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.facts.separate_jobs import JobFiles, separate_jobs
from unhang.facts.worlds.world_edges import edges_between
from unhang.facts.worlds.worlds_of_job import WorldFiles, worlds_of
from unhang.findings import Consequence, Finding, Grade, NotChecked, Severity, Status, Verdict, World, WorldEdge
from unhang.knowledge.reasoning_rows import causes_that
from unhang.sentences import say

_Part = TypeVar("_Part")
_UNSEEN = NotChecked(
    say("whether another world of the job was waited for"),
    say("no line says for whom its processes waited"),
    caps=CERTAINTY[Grade.ORDER][0],
)


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The verdict on one job, the facts it rests on, and the files it is about."""

    verdict: Verdict
    facts: Facts
    files: JobFiles


def _diagnose_worlds(evidence: EvidenceSet) -> tuple[Verdict, Facts]:
    """Each world of a job by itself, then together."""
    told = []
    worlds = worlds_of(evidence)
    for files in worlds:
        beside = tuple(other.id for other in worlds if other is not files)
        facts = build_facts(files.evidence, beside, evidence if files is worlds[0] else EvidenceSet())
        told.append(WorldVerdict(files, facts, diagnose(facts)))
    return join_worlds(told)


_WORST_FIRST = ((Status.HANG, Status.CRASH), (Status.SLOW, Status.MISCONFIGURED), (Status.UNKNOWN,), (Status.HEALTHY,))


def diagnose_jobs(evidence: EvidenceSet) -> tuple[JobVerdict, ...]:
    """A verdict for each job that ``evidence`` is of; the worst first, and the latest of several."""
    verdicts = [JobVerdict(*_diagnose_worlds(files.evidence), files) for files in reversed(separate_jobs(evidence))]
    return tuple(
        sorted(verdicts, key=lambda one: [one.verdict.status in alike for alike in _WORST_FIRST], reverse=True)
    )


@dataclass(frozen=True, slots=True)
class WorldVerdict:
    """The verdict on one world, and what it rests on."""

    files: WorldFiles
    facts: Facts
    verdict: Verdict


def join_worlds(told: Sequence[WorldVerdict]) -> tuple[Verdict, Facts]:
    """The verdict on all of them with the facts of the world that leads; of one world its own.

    What waits in one world for a process that failed in another is a consequence: where an error of the one names the
    other, or where nothing else explains it. Where it leads and no error tells for whom it waited, it is not certain.
    """
    if len(told) == 1:
        return told[0].verdict, told[0].facts
    edges = edges_between([(one.files.id, one.facts) for one in told])
    marked = [_marked(finding, one.files.id) for one in told for finding in one.verdict.findings]
    wrong = [finding for finding in marked if finding.severity is not Severity.NOTE]
    notes = [finding for finding in marked if finding.severity is Severity.NOTE]  # of a world that is well
    findings = (*_nested(rank_findings(wrong), edges), *rank_findings(notes))
    home = next((one for one in told if findings and one.files.id == findings[0].world), told[0])
    gap = (_UNSEEN,) if findings and _waits_unseen(findings[0], home, told, edges) else ()
    capped = cap_by_gaps(home.facts, replace(home.verdict, findings=findings, not_checked=gap, unread=()))
    verdict = replace(
        home.verdict,
        findings=capped.findings,
        not_checked=_once(chain(*(one.verdict.not_checked for one in (home, *told)), gap)),
        unread=_once(chain.from_iterable(one.verdict.unread for one in told)),
        worlds=tuple(map(_world, told)),
        edges=edges,
    )
    return verdict, home.facts


def _marked(finding: Finding, world: str) -> Finding:
    return replace(finding, world=world)


def _nested(ordered: tuple[Finding, ...], edges: Sequence[WorldEdge]) -> tuple[Finding, ...]:
    """What follows from the first across worlds becomes its consequence."""
    if not ordered:
        return ordered
    first, kept = ordered[0], [ordered[0]]
    for other in ordered[1:]:
        if other.world != first.world and _follows(first, other, edges):
            consequence = Consequence(other.cause, (), max(len(other.ranks), 1), other.summary)
            first = kept[0] = replace(first, consequences=(*first.consequences, consequence))
        else:
            kept.append(other)
    return tuple(kept)


def _follows(root: Finding, other: Finding, edges: Sequence[WorldEdge]) -> bool:
    if not names_cause(root) or root.cause not in causes_that("takes-a-process"):
        return False
    return other.grade is Grade.EXCLUSION or any((e.waiter, e.awaited) == (other.world, root.world) for e in edges)


def _waits_unseen(lead: Finding, home: WorldVerdict, told: Sequence[WorldVerdict], edges: Sequence[WorldEdge]) -> bool:
    """Ranks of the leading world wait, and of another nothing tells what it did then."""
    if not home.facts.graph.edges or lead.cause in causes_that("takes-a-process"):
        return False
    read = {edge.awaited for edge in edges} | {edge.waiter for edge in edges}
    return any(one is not home and one.files.id not in read and not one.facts.ranks_seen for one in told)


def _world(one: WorldVerdict) -> World:
    row, facts = one.files.row, one.facts
    return World(
        id=one.files.id,
        role=one.files.id,
        called=row.called if row is not None else "",
        framework=row.framework if row is not None else "",
        programs=one.files.programs,
        world_size=facts.world_size,
        ranks_seen=facts.ranks_seen,
        ranks_missing=facts.ranks_missing,
    )


def _once(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    kept: list[_Part] = []
    for part in parts:
        if part not in kept:
            kept.append(part)
    return tuple(kept)
