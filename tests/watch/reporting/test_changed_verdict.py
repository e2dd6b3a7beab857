"""A verdict that changes while ranks wait is printed once it is steady, and does not swing to and fro."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unhang.watch.job.job_ranks import JobRank, JobRanks
from unhang.watch.job.wait_detection import WaitSnapshot
from unhang.watch.pace.pace_record import RunTotals
from unhang.watch.reporting import announcements
from unhang.watch.stall_episode import MIN_SAMPLE_INTERVAL_S, StallEpisode, should_report
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary
from unhang.wire.record_views import RecordView

FIRST = VerdictSummary(
    number=1,
    level=VerdictLevel.STALL.value,
    status="hang",
    cause="uneven-data",
    certainty="likely",
    ranks=(0,),
    where="/job/train.py:41",
    sentence="",
    stalled_since_s=None,
    limit_at_s=None,
    moving=False,
    settled=True,
    laggard_works=False,
    needs_lines=False,
)
OTHER = replace(FIRST, cause="rank-crashed", ranks=(1,), where="/job/train.py:9")
WORKS = replace(FIRST, level=VerdictLevel.SLOW.value, status="slow", cause="single-rank-work", laggard_works=True)
SLEEPS = replace(WORKS, status="hang")


def snapshot(seconds: float) -> WaitSnapshot:
    return WaitSnapshot({}, (1,), (0,), 0, seconds, urgent=False, due=True, rhythm=True)


def printed(*found: VerdictSummary) -> list[str]:
    """The causes that are printed when looks come to ``found``, one after the other."""
    episode, said = StallEpisode(snapshot(60.0)), []
    for summary in found:
        episode.mark_sampled(episode.snapshot)
        episode.heard(summary)
        if should_report(RunPlan(), summary, episode):
            episode.say(summary)
            said.append(summary.cause)
    return said


def test_a_changed_verdict_is_printed_once_two_looks_agree() -> None:
    assert printed(FIRST, OTHER) == ["uneven-data"]
    assert printed(FIRST, OTHER, OTHER, OTHER) == ["uneven-data", "rank-crashed"]


def test_one_that_swings_is_printed_once() -> None:
    assert printed(FIRST, OTHER, FIRST, OTHER, FIRST, OTHER) == ["uneven-data"]
    assert printed(FIRST, OTHER, OTHER, FIRST, FIRST, OTHER, OTHER) == ["uneven-data", "rank-crashed"]


def test_also_from_a_stall_to_work_and_from_work_to_a_stall() -> None:
    assert printed(FIRST, WORKS, WORKS) == ["uneven-data", "single-rank-work"]
    stands = replace(SLEEPS, level=VerdictLevel.STALL.value)
    assert printed(WORKS, stands, stands) == ["single-rank-work", "single-rank-work"]


def test_a_rank_that_works_may_stand_at_another_line() -> None:
    assert printed(WORKS, *[replace(WORKS, where=f"/job/train.py:{line}") for line in (9, 9, 9)]) == [
        "single-rank-work"
    ]


def test_a_hang_is_said_once() -> None:
    stands = replace(SLEEPS, level=VerdictLevel.STALL.value)
    assert printed(stands, stands, stands) == ["single-rank-work"]


def test_stacks_are_asked_where_nothing_moves_and_there_is_doubt() -> None:
    episode = StallEpisode(snapshot(60.0))
    for summary, wanted in (
        (FIRST, False),
        (replace(FIRST, settled=False), True),
        (replace(FIRST, settled=False, moving=True), False),
        (replace(SLEEPS, settled=False), False),
        (replace(FIRST, needs_lines=True), True),
    ):
        episode.heard(summary)
        assert episode.wants_stacks is wanted, summary


def test_the_look_that_confirms_a_change_comes_soon() -> None:
    episode = StallEpisode(snapshot(60.0))
    episode.mark_sampled(snapshot(60.0))
    episode.heard(FIRST)
    episode.say(FIRST)
    soon = snapshot(60.0 + MIN_SAMPLE_INTERVAL_S)
    assert not episode.is_sample_due(soon)

    episode.heard(OTHER)
    assert episode.is_sample_due(soon)


def test_what_changed_is_said_in_words_and_all_of_it_where_another_is_blamed() -> None:
    assert announcements.changed(FIRST, OTHER, "CRASH  Rank 1 ended\n").splitlines() == [
        "The verdict has changed:",
        "  • the cause is rank-crashed, not uneven-data",
        "  • it is rank 1, not rank 0",
        "  • the line is now train.py:9",
        "",
        "CRASH  Rank 1 ended",
    ]
    assert announcements.changed(SLEEPS, WORKS, "SLOW  Rank 0 works").splitlines() == [
        "The verdict has changed:",
        "  • it is SLOW, no longer HANG",
        "  • since then rank 0 has used CPU or files",
    ]


def test_the_last_line_names_what_stands_and_else_what_ended_by_itself() -> None:
    totals, members = RunTotals(), JobRanks(Path("records"))
    members.by_rank[0] = JobRank(0, 10, RecordView())
    totals.found("uneven-data")
    totals.found("rank-crashed", instead_of="uneven-data")
    assert announcements.summary_lines(totals, members, Path("/run")).endswith(
        "unhang: found: rank-crashed; see /run\n"
    )

    totals.note_stall_over("rank-crashed")
    assert announcements.summary_lines(totals, members, Path("/run")).endswith(
        "unhang: no lasting problem found; resolved by itself: rank-crashed; see /run/.unhang/past\n"
    )
