"""Ranks are aligned by position; only a disagreement that reaches the stall counts."""

from __future__ import annotations

from typing import Any

from tests.facts.jobs import call, job, recording
from unhang.evidence.items import RecorderDump
from unhang.facts.build import build_facts
from unhang.facts.model import CallMismatch

WORLD = {"0": (0, 1, 2)}


def found(*recordings: RecorderDump) -> tuple[CallMismatch, ...]:
    return build_facts(job(*recordings)).mismatches


def steps(first: int, last: int, **parts: Any) -> list[dict[str, Any]]:
    """Finished calls whose sizes repeat every seven positions, so that a shift would show."""
    return [call(p, size=(p % 7 + 1,), **parts) for p in range(first, last + 1)]


def at(position: int, **parts: Any) -> dict[str, Any]:
    return call(position, state="scheduled", **{"size": (position % 7 + 1,), **parts})


def test_the_odd_rank_is_the_minority() -> None:
    dumps = [recording(r, [*steps(1, 9), at(10, size=(99,) if r == 2 else (4,))], groups=WORLD) for r in range(3)]

    (one,) = found(*dumps)

    assert (one.position, one.outliers, one.differs_in, one.records_align) == (10, (2,), ("size",), True)


def test_a_tie_is_declared_and_not_decided() -> None:
    world = {"0": (0, 1)}
    dumps = [recording(r, [*steps(1, 9), at(10, size=(40 + r,))], groups=world) for r in range(2)]

    (one,) = found(*dumps)

    assert one.outliers == ()
    assert sorted(rank for ranks in one.calls.values() for rank in ranks) == [0, 1]


def test_rings_that_wrapped_at_different_times_agree() -> None:
    dumps = [recording(r, [*steps(first, 40), at(41)], groups=WORLD) for r, first in enumerate((1, 20, 37))]

    assert found(*dumps) == ()


def test_skewed_record_ids_agree() -> None:
    dumps = [
        recording(r, [*steps(30, 40), at(41)], groups=WORLD, first_record=skew) for r, skew in enumerate((0, 5, 999))
    ]

    assert found(*dumps) == ()


def test_ranks_that_ran_ahead_agree_with_the_one_behind() -> None:
    ahead = [*steps(30, 40), at(41), at(42), at(43)]
    dumps = [recording(r, steps(30, 40) if r == 1 else ahead, groups=WORLD) for r in range(3)]

    assert found(*dumps) == ()


def test_a_record_that_starts_at_the_stall_may_be_shifted() -> None:
    dumps = [recording(r, [*steps(30, 40), at(41)] if r else [at(41, size=(77,))], groups=WORLD) for r in range(3)]

    (one,) = found(*dumps)

    assert not one.records_align


def test_a_disagreement_that_the_job_survived_is_no_cause() -> None:
    def calls(rank: int) -> list[dict[str, Any]]:
        survived = [call(p, size=(p % 7 + 1 + (rank == 0 and p == 5),)) for p in range(1, 41)]
        return survived if rank == 2 else [*survived, at(41)]

    assert found(*(recording(r, calls(r), groups=WORLD) for r in range(3))) == ()


def test_the_first_position_of_a_shift_is_named() -> None:
    """One rank left out a call at 38; from there its calls stand one position early."""
    right = [*steps(1, 40), at(41)]
    early = [*steps(1, 37), *(call(p, size=((p + 1) % 7 + 1,)) for p in range(38, 40)), at(40, size=(41 % 7 + 1,))]

    (one,) = found(
        recording(0, right, groups=WORLD), recording(1, right, groups=WORLD), recording(2, early, groups=WORLD)
    )

    assert (one.position, one.outliers) == (38, (2,))


def test_what_may_differ_does_not_disagree() -> None:
    free = [call(41, "all_to_all", state="scheduled", size=(9 + r,)) for r in range(3)]
    dumps = [recording(r, [*steps(30, 40), free[r]], groups=WORLD) for r in range(3)]
    assert found(*dumps) == ()

    shapes = [at(41, size=shape) for shape in ((4, 6), (24,), (2, 12))]
    dumps = [recording(r, [*steps(30, 40), shapes[r]], groups=WORLD) for r in range(3)]
    assert found(*dumps) == ()


def test_one_name_of_an_operation_over_versions_does_not_disagree() -> None:
    names = ("_allgather_base", "all_gather_into_tensor", "_all_gather_base")
    dumps = [recording(r, [*steps(30, 40), at(41, operation=names[r])], groups=WORLD) for r in range(3)]

    assert found(*dumps) == ()
