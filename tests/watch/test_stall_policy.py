"""When a wait is spoken of, and when it ends the job, as the user's options say."""

from __future__ import annotations

import pytest

from unhang.watch.job.wait_detection import WaitSnapshot
from unhang.watch.stall_episode import StallEpisode, borne_s, patience_limits_s, should_abort, should_report
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary


def waited(seconds: float, *, rhythm: bool = True, planned_s: float = 0.0, seen_s: float = 0.0) -> StallEpisode:
    snapshot = WaitSnapshot({}, (1,), (0,), 0, seconds, urgent=False, due=True, rhythm=rhythm)
    episode = StallEpisode(snapshot, planned_until_s=planned_s, longest_s=seen_s)
    episode.mark_sampled(snapshot)
    return episode


def summary(level: VerdictLevel, *, moving: bool = False) -> VerdictSummary:
    return VerdictSummary(
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


SLOW = summary(VerdictLevel.SLOW, moving=True)
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
def test_work_of_one_rank_is_spoken_of_when_patience_ends(plan: RunPlan, episode: StallEpisode, said: bool) -> None:
    assert should_report(plan, SLOW, episode) is said


@pytest.mark.parametrize(
    ("plan", "episode", "said"),
    [
        (RunPlan(), waited(31.0, seen_s=25.0), False),  # it took 25 s before, and the job went on
        (RunPlan(), waited(38.0, seen_s=25.0), True),
        (RunPlan(slow_after_s=20.0), waited(19.0), False),
        (RunPlan(slow_after_s=20.0), waited(21.0), True),
    ],
)
def test_what_the_run_has_seen_before_and_what_the_user_allows_are_borne(
    plan: RunPlan, episode: StallEpisode, *, said: bool
) -> None:
    assert should_report(plan, SLOW, episode) is said


def test_a_sample_that_began_before_patience_ended_is_not_the_one_that_is_said() -> None:
    episode = waited(29.0)
    episode.snapshot = waited(31.0).snapshot

    assert not should_report(RunPlan(), SLOW, episode)
    assert episode.is_sample_due(episode.snapshot, patience_limits_s(RunPlan(), episode))


def test_before_the_first_steps_only_work_is_borne_longer() -> None:
    assert not should_report(RunPlan(), SLOW, waited(31.0, rhythm=False))
    assert should_report(RunPlan(), summary(VerdictLevel.STALL), waited(31.0, rhythm=False))


@pytest.mark.parametrize(
    ("plan", "episode", "seconds"),
    [
        (RunPlan(), waited(9.0), 30.0),
        (RunPlan(), waited(9.0, rhythm=False), 30.0),
        (RunPlan(), waited(9.0, seen_s=30.0), 45.0),
        (RunPlan(slow_after_s=5.0), waited(9.0), 5.0),
    ],
)
def test_what_stands_for_longer_than_anything_before_does_not_work(
    plan: RunPlan, episode: StallEpisode, seconds: float
) -> None:
    assert borne_s(plan, episode) == seconds
    assert seconds in patience_limits_s(plan, episode)


@pytest.mark.parametrize(
    ("plan", "found", "episode", "ends"),
    [
        (RunPlan(), summary(VerdictLevel.STALL), waited(99.0), False),
        (RunPlan(on_hang="abort"), summary(VerdictLevel.STALL), waited(3.0), True),
        (RunPlan(on_hang="abort"), summary(VerdictLevel.STALL, moving=True), waited(99.0), False),
        (RunPlan(on_hang="abort"), SLOW, waited(999.0), False),
        (ABORT, SLOW, waited(19.0), False),
        (ABORT, SLOW, waited(21.0), True),
        (ABORT, SLOW, waited(21.0, planned_s=5.0), False),
    ],
)
def test_a_rank_that_works_ends_no_job_before_its_time(
    plan: RunPlan, found: VerdictSummary, episode: StallEpisode, ends: bool
) -> None:
    assert should_abort(plan, found, episode) is ends


def test_a_look_is_due_when_patience_ends() -> None:
    episode = waited(12.0)
    episode.mark_sampled(episode.snapshot)
    soon, late = waited(16.0).snapshot, waited(21.0).snapshot
    episode.snapshot = soon
    assert not episode.is_sample_due(soon, (20.0,))

    episode.snapshot = late
    assert episode.is_sample_due(late, (20.0,))
