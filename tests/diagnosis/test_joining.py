"""What several detectors say of one cause in one incident is one finding to a reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.diagnosis.test_explaining import found
from tests.facts.jobs import call, job, recording
from unhang.causes.detector import Detector, DetectorResult, make_signal
from unhang.diagnosis.diagnose import diagnose
from unhang.diagnosis.ranking import rank_findings
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Consequence, Evidence, Finding, Grade, RemedyKind, Severity, Source, Where
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

LIKELY, CERTAIN, POSSIBLE = Certainty.LIKELY, Certainty.CERTAIN, Certainty.POSSIBLE
PLACE, OTHER_PLACE = Where("train.py", 88, "step"), Where("data.py", 7, "load")
FIRST, SECOND = (Evidence(Source("0.log", 3), "killed"),), (Evidence(Source("0.log", 9), "gone"),)
CHANGE, LOOK = remedy("use-free-port"), remedy("find-worker-exit-reason")


def ranked(*findings: Finding) -> tuple[Finding, ...]:
    return rank_findings(findings)


def test_who_names_no_rank_joins_who_does() -> None:
    named = found(Cause.GPU_OOM, LIKELY, (2,), where=PLACE, evidence=FIRST, grade=Grade.ORDER)
    unnamed = found(Cause.GPU_OOM, LIKELY, evidence=SECOND, grade=Grade.STATED)

    (only,) = ranked(named, unnamed)
    assert (only.ranks, only.where, set(only.evidence)) == ((2,), PLACE, {*FIRST, *SECOND})
    assert ranked(unnamed, named) == (only,)


def test_a_weaker_finding_without_ranks_adds_its_evidence() -> None:
    named = found(Cause.HOST_MEMORY, CERTAIN, (1,), evidence=FIRST)

    (only,) = ranked(found(Cause.HOST_MEMORY, POSSIBLE, evidence=SECOND, where=PLACE), named)
    assert (only.certainty, only.ranks, only.evidence) == (CERTAIN, (1,), (*FIRST, *SECOND))
    assert only.where is None, "a place that is only possible is no likely one"


def test_ranks_that_are_only_possible_name_nobody_in_a_likely_finding() -> None:
    stated = found(Cause.RENDEZVOUS, LIKELY)
    guessed = found(Cause.RENDEZVOUS, POSSIBLE, (3,))

    assert ranked(guessed, stated) == (stated, guessed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"group": "dp"}, {"group": "tp"}),
        ({"nodes": ("h1",)}, {"nodes": ("h2",)}),
        ({"where": PLACE}, {"where": OTHER_PLACE}),
    ],
)
def test_findings_that_contradict_each_other_stay_two(one: dict[str, object], other: dict[str, object]) -> None:
    named, unnamed = found(Cause.HOST_MEMORY, LIKELY, (1,), **one), found(Cause.HOST_MEMORY, LIKELY, **other)

    assert ranked(named, unnamed) == ranked(unnamed, named) == (named, unnamed)


def test_a_note_is_no_part_of_what_stops_the_job() -> None:
    stops = found(Cause.DEVICE_MAPPING, LIKELY, (7,))
    note = replace(found(Cause.DEVICE_MAPPING, POSSIBLE), severity=Severity.NOTE)

    assert ranked(stops, note) == (stops, note)


def test_what_else_is_to_be_changed_and_what_else_followed_is_kept() -> None:
    lost = Consequence(Cause.P2P_BROKEN, (4,), 1)
    named = found(Cause.HOST_MEMORY, LIKELY, (1,))
    unnamed = found(Cause.HOST_MEMORY, LIKELY, remedies=(LOOK, CHANGE), consequences=(lost,))

    (only,) = ranked(named, unnamed)
    assert LOOK.kind is RemedyKind.COLLECT
    assert (only.remedies, only.consequences) == ((CHANGE,), (lost,))


def test_what_both_advise_is_said_once() -> None:
    named = found(Cause.RENDEZVOUS, LIKELY, (1,), remedies=(CHANGE,))
    unnamed = found(Cause.RENDEZVOUS, LIKELY, remedies=(replace(CHANGE, change=say("another port")),))

    (only,) = ranked(named, unnamed)
    assert only.remedies == (CHANGE,)


def test_what_follows_from_a_consequence_follows_from_its_root() -> None:
    uneven = found(Cause.UNEVEN_DATA, CERTAIN, (1,), group="g")
    mismatch = found(Cause.COLLECTIVE_MISMATCH, LIKELY, (0,), group="g", evidence=FIRST)
    crash = found(Cause.RANK_CRASHED, LIKELY, (2,), evidence=FIRST)  # told by the same line

    (lead,) = ranked(crash, mismatch, uneven)

    assert lead.cause is Cause.UNEVEN_DATA
    assert [c.cause for c in lead.consequences] == [Cause.COLLECTIVE_MISMATCH, Cause.RANK_CRASHED]


def test_what_is_capped_is_capped_before_it_is_ranked() -> None:
    facts = build_facts(job(*(recording(rank, [call(1)], groups={"0": (0, 1)}) for rank in (0, 1))))

    def stated(_: Facts) -> Iterator[DetectorResult]:
        yield make_signal(Grade.STATED, say("stated by NCCL"), ranks=(0,))

    def stood(_: Facts) -> Iterator[DetectorResult]:
        yield make_signal(Grade.SOURCE, say("stacks"), whole=False, ranks=(1,))

    rules = [Detector("a", Cause.COLLECTIVE_MISMATCH, stated, ""), Detector("b", Cause.DEADLOCK_ORDER, stood, "")]
    shown = diagnose(facts, rules).findings

    assert [(f.cause, f.certainty) for f in shown] == [
        (Cause.DEADLOCK_ORDER, LIKELY),
        (Cause.COLLECTIVE_MISMATCH, LIKELY),
    ]
