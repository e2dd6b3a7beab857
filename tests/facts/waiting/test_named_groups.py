"""Two groups on one line are told apart by what the callers name them, and only where that is sure to mean two."""

from __future__ import annotations

import pytest

from tests.facts.waiting.test_progress_from_stacks import COLLECTIVE, TRAIN, stack
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import SourceFile
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess


def facts(program: str, lines: list[tuple[int, ...]]) -> Facts:
    """Rank N stands in an all_reduce at the N-th of ``lines``, innermost first; two lines: ``average`` < ``main``."""
    stacks = []
    for rank, places in enumerate(lines):
        names = ("average", "main") if len(places) == 2 else ("main",)
        frames = [f"{name} ({TRAIN}:{line})" for name, line in zip(names, places, strict=True)]
        stacks.append(stack(rank, COLLECTIVE.format("all_reduce"), *frames))
    processes = tuple(RankProcess(r, pid=100 + r, moving=False, state="S") for r in range(len(lines)))
    manifest = BundleManifest(source=Source("bundle.json"), world_size=len(lines), processes=processes)
    sources = [SourceFile(Source("train.py"), TRAIN, program)]
    return build_facts(EvidenceSet(stacks=stacks, manifests=[manifest], sources=sources))


THROUGH_A_CALL = """\
def average(x, group):
    dist.all_reduce(x, group=group)


def main():
    if ready:
        average(a, {first})
    else:
        average(b, {second})
"""


def test_the_callers_lines_name_two_groups_that_wait_for_each_other() -> None:
    known = facts(THROUGH_A_CALL.format(first="dense", second="group=expert"), [(2, 9), (2, 7), (2, 7)])

    assert known.graph.cycles == ((0, 1, 2),)
    assert {name.rpartition(" ")[2] for name in known.groups} == {"dense", "expert"}


@pytest.mark.parametrize(
    ("first", "second"),
    [("dense", "dense"), ("pairs[rank]", "pairs[rank - 1]"), ("make()", "expert"), ("*both", "expert")],
)
def test_one_name_or_an_expression_tells_nothing(first: str, second: str) -> None:
    assert facts(THROUGH_A_CALL.format(first=first, second=second), [(2, 9), (2, 7), (2, 7)]).graph.cycles == ()


def test_names_of_two_functions_may_mean_one_group() -> None:
    program = """\
def average(x):
    dist.all_reduce(x, group=mine)


def main():
    dist.all_reduce(x, group=everyone)
    average(x)
"""

    assert facts(program, [(2, 7), (6,), (6,)]).graph.cycles == ()


def test_the_name_of_a_loop_means_every_group_in_turn() -> None:
    program = """\
def main():
    for g in groups:
        dist.all_reduce(x, group=g)
    for h in groups:
        dist.all_reduce(x, group=h)
"""

    assert facts(program, [(3,), (5,), (5,)]).graph.cycles == ()


def test_a_name_that_is_set_anew_is_not_the_callers() -> None:
    program = THROUGH_A_CALL.format(first="dense", second="expert").replace(
        "    dist.all_reduce(x, group=group)", "    group = group or world; dist.all_reduce(x, group=group)"
    )

    assert facts(program, [(2, 9), (2, 7), (2, 7)]).graph.cycles == ()
