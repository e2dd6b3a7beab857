"""A rank that never waits is found in a job that moves; an even job has none."""

from __future__ import annotations

from unhang.records.views import Identity, RecordView
from unhang.watch.detection import RankLook
from unhang.watch.straggling import PAUSE, WINDOW, StragglerWatch


def looks(phases: dict[int, str], *, steps: int = 50) -> dict[int, RankLook]:
    return {
        rank: RankLook(RecordView(identity=Identity(rank=rank), phase=phase, steps=steps))
        for rank, phase in phases.items()
    }


def asked(watch: StragglerWatch, times: int, phases: dict[int, str], **how: int) -> list[int]:
    found = [watch.add(looks(phases, **how)) for _ in range(times)]
    return [rank for rank in found if rank is not None]


def test_the_only_rank_that_never_waits_is_asked_about_once_a_while() -> None:
    phases = {0: "communication", 1: "compute", 2: "communication"}

    assert asked(StragglerWatch(), WINDOW + PAUSE - 1, phases) == [1]


def test_an_even_job_has_no_straggler() -> None:
    watch = StragglerWatch()
    for turn in range(4 * WINDOW):
        phases = {0: "communication", 1: "compute"} if turn % 2 else {0: "compute", 1: "communication"}
        assert watch.add(looks(phases)) is None


def test_before_the_first_steps_nobody_is_slow() -> None:
    assert asked(StragglerWatch(), 2 * WINDOW, {0: "communication", 1: "compute"}, steps=0) == []
