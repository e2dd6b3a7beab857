"""Everyone joined the same collective and nobody finished it: only where that is really so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.jobs import call, job, recording
from unhang.causes.collectives.collective_mismatch import detect as check_mismatch
from unhang.causes.detector import Signal
from unhang.facts.build import build_facts
from unhang.facts.model import AllJoinedStall, Facts
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess


def found(*last: dict[str, Any] | None) -> tuple[AllJoinedStall, ...]:
    world = {"0": tuple(range(len(last)))}
    dumps = [recording(r, [call(40), *([c] if c else [])], groups=world) for r, c in enumerate(last) if c != {}]
    return build_facts(job(*dumps)).all_joined_stalls


OPEN = call(41, state="scheduled")


def test_all_members_at_one_position_are_one_stall() -> None:
    (stall,) = found(OPEN, OPEN, OPEN)

    assert (stall.group, stall.position, stall.operation, stall.ranks) == ("0", 41, "all_reduce", (0, 1, 2))


@pytest.mark.parametrize(
    "odd",
    [
        None,  # has not entered
        {},  # left no dump
        call(41, "broadcast", state="scheduled"),
        call(41, state="scheduled", size=(9,)),
    ],
)
def test_one_odd_member_is_enough_against_it(odd: dict[str, Any] | None) -> None:
    assert found(OPEN, OPEN, odd) == ()


def test_a_rank_alone_is_no_stall_of_all() -> None:
    assert found(OPEN) == ()


@pytest.mark.parametrize(("size", "stalls"), [(2, 1), (3, 0)])
def test_two_of_three_members_are_not_all(size: int, stalls: int) -> None:
    """Gloo's dumps name no members; the third has not come, and its record was not read."""
    calls = [call(1, backend="gloo"), call(1, group="1", backend="gloo", state="scheduled")]
    evidence = job(*(recording(rank, calls, groups={}) for rank in (0, 1)))
    processes = tuple(RankProcess(rank, groups={"1": size}) for rank in (0, 1))
    evidence.manifests.append(BundleManifest(source=Source("bundle.json"), world_size=4, processes=processes))

    assert len(build_facts(evidence).all_joined_stalls) == stalls


def exchange(*sizes: tuple[int, int]) -> Facts:
    """All ranks in one exchange of parts; (sent, expected) of each."""
    dumps = []
    for rank, (sent, wanted) in enumerate(sizes):
        entry = call(7, "all_to_all_single", state="scheduled", size=(sent,))
        entry["output_sizes"] = ((wanted,),)
        dumps.append(recording(rank, [entry], groups={"0": range(len(sizes))}))
    return build_facts(job(*dumps))


def test_split_sizes_that_do_not_fit_are_told_with_their_numbers() -> None:
    (found,) = check_mismatch(exchange((7, 10), (7, 5)))
    assert isinstance(found, Signal)
    assert "14 elements and expect 15" in str(found.summary)
    assert [str(reason) for reason in found.parts["because"]] == [
        "rank 0 sends 7 elements and expects 10",
        "rank 1 sends 7 elements and expects 5",
    ]


def test_uneven_split_sizes_that_fit_are_no_mismatch() -> None:
    assert list(check_mismatch(exchange((7, 9), (7, 5)))) == []
