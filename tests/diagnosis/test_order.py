"""The order in which evidence is read never changes a verdict."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.facts.jobs import call, job, recording
from tests.test_cases import case_folders, name_of
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import RecorderDump
from unhang.facts.build import build_facts
from unhang.report.verdict_document import to_json

SEEDS = range(6)


def shuffled(evidence: EvidenceSet, seed: int) -> EvidenceSet:
    """The same evidence with every list in another order."""
    order = random.Random(seed)
    lists = {}
    for field in fields(evidence):
        items = list(getattr(evidence, field.name))
        if field.name != "inputs":
            order.shuffle(items)
        lists[field.name] = items
    return replace(evidence, **lists)


def verdict_of(evidence: EvidenceSet) -> str:
    return to_json(diagnose(build_facts(evidence)))


@pytest.mark.parametrize("folder", case_folders(), ids=name_of)
def test_the_order_of_evidence_never_matters(folder: Path) -> None:
    evidence = read_evidence([str(folder / "input")])
    first = verdict_of(evidence)

    for seed in SEEDS:
        assert verdict_of(shuffled(evidence, seed)) == first


@pytest.mark.parametrize("folder", case_folders()[::5], ids=name_of)
def test_the_order_of_files_on_the_command_line_never_matters(folder: Path) -> None:
    top = sorted(str(path) for path in (folder / "input").iterdir())
    first = None
    for seed in SEEDS:
        paths = list(top)
        random.Random(seed).shuffle(paths)
        found = read_evidence(paths)
        found.inputs = top
        first = first or verdict_of(found)
        assert verdict_of(found) == first


@pytest.mark.parametrize("folder", case_folders()[::4], ids=name_of)
def test_the_order_of_rules_never_matters(folder: Path) -> None:
    facts = build_facts(read_evidence([str(folder / "input")]))
    first = to_json(diagnose(facts))

    for seed in SEEDS:
        rules = list(ALL_DETECTORS)
        random.Random(seed).shuffle(rules)
        assert to_json(diagnose(facts, rules)) == first


OPERATIONS = ("all_reduce", "broadcast", "barrier")


@st.composite
def recordings(draw: st.DrawFn) -> list[RecorderDump]:
    """A job of up to six ranks in up to three groups, each as far as chance has it."""
    world = draw(st.integers(2, 6))
    groups = {"0": tuple(range(world))}
    for name in ("1", "2")[: draw(st.integers(0, 2))]:
        groups[name] = tuple(sorted(draw(st.sets(st.integers(0, world - 1), min_size=2))))
    found = []
    for rank in range(world):
        if draw(st.integers(0, 9)) == 0:
            continue
        mine = {name: members for name, members in groups.items() if rank in members}
        calls = []
        for name in mine:
            reach = draw(st.integers(1, 5))
            for position in range(1, reach + 1):
                odd = draw(st.integers(0, 11)) == 0
                operation = OPERATIONS[draw(st.integers(0, 2))] if odd else "all_reduce"
                open_ = position == reach and draw(st.booleans())
                calls.append(call(position, operation, state="scheduled" if open_ else "completed", group=name))
        found.append(recording(rank, calls, groups=mine, first_record=draw(st.integers(0, 3))))
    return found


@settings(max_examples=60)
@given(found=recordings(), seed=st.integers(0, 1000))
def test_no_job_whatsoever_depends_on_order(found: list[RecorderDump], seed: int) -> None:
    evidence = job(*found)

    assert verdict_of(shuffled(evidence, seed)) == verdict_of(evidence)
