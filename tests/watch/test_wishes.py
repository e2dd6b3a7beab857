"""When a wait is spoken of, and when it ends the job, as the user's options say."""

from __future__ import annotations

import pytest

from unhang.watch import wishes
from unhang.watch.detection import Standing
from unhang.watch.episode import Episode
from unhang.watch.run_folder import RunPlan
from unhang.watch.summary import Level, Summary


def waited(seconds: float, *, rhythm: bool = True, planned_s: float = 0.0) -> Episode:
    standing = Standing({}, (1,), (0,), 0, seconds, urgent=False, due=True, rhythm=rhythm)
    return Episode(standing, planned_until_s=planned_s)


def summary(level: Level, *, moving: bool = False) -> Summary:
    return Summary(
        number=1,
        level=level.value,
        status="hang",
        cause="single-rank-work",
        certainty="likely",
        ranks=(0,),
        where="train.py:8",
        sentence="",
        stalled_since_s=None,
        limit_at_s=None,
        moving=moving,
        settled=False,
        laggard_works=True,
        needs_lines=False,
    )


SLOW = summary(Level.SLOW, moving=True)
ABORT = RunPlan(on_hang="abort", abort_slow_after_s=20.0)


@pytest.mark.parametrize(
    ("plan", "episode", "said"),
    [
        (RunPlan(), waited(29.0), False),
        (RunPlan(), waited(31.0), True),
        (RunPlan(), waited(31.0, rhythm=False), False),
        (RunPlan(), waited(121.0, rhythm=False), True),
        (RunPlan(), waited(31.0, planned_s=10.0), False),
        (ABORT, waited(21.0, rhythm=False), True),
        (RunPlan(abort_slow_after_s=20.0), waited(21.0), False),
    ],
)
def test_work_of_one_rank_is_spoken_of_when_patience_ends(plan: RunPlan, episode: Episode, said: bool) -> None:
    assert wishes.worth_saying(plan, SLOW, episode) is said


@pytest.mark.parametrize(
    ("plan", "found", "episode", "ends"),
    [
        (RunPlan(), summary(Level.STALL), waited(99.0), False),
        (RunPlan(on_hang="abort"), summary(Level.STALL), waited(3.0), True),
        (RunPlan(on_hang="abort"), summary(Level.STALL, moving=True), waited(99.0), False),
        (RunPlan(on_hang="abort"), SLOW, waited(999.0), False),
        (ABORT, SLOW, waited(19.0), False),
        (ABORT, SLOW, waited(21.0), True),
        (ABORT, SLOW, waited(21.0, planned_s=5.0), False),
    ],
)
def test_a_rank_that_works_ends_no_job_before_its_time(
    plan: RunPlan, found: Summary, episode: Episode, ends: bool
) -> None:
    assert wishes.to_be_ended(plan, found, episode) is ends


def test_a_look_is_due_when_patience_ends() -> None:
    episode = waited(12.0)
    episode.looked(episode.standing)
    soon, late = waited(16.0).standing, waited(21.0).standing
    episode.standing = soon
    assert not episode.look_due(soon, (20.0,))

    episode.standing = late
    assert episode.look_due(late, (20.0,))
