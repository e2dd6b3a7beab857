"""The last two lines tell the steps, the median step, the slowest rank and what was found; in Chinese too."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from unhang.watch.job.job_ranks import JobRank, JobRanks
from unhang.watch.job.wait_detection import RankSample
from unhang.watch.pace.pace_record import RunTotals
from unhang.watch.reporting import announcements
from unhang.wire.documents.verdict_summary import VerdictSummary
from unhang.wire.record_views import RankIdentity, RecordView

FOLDER = Path("/tmp/run")


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    yield
    announcements.set_language("en")


def ran(seconds: list[float], *, waits: float = 0.8) -> tuple[RunTotals, JobRanks]:
    """Two ranks; rank 1 waits in that share of the looks, rank 0 never."""
    totals, members, now_ns = RunTotals(), JobRanks(FOLDER), 1
    for step, step_s in enumerate(seconds, 1):
        now_ns += int(step_s * 1e9)
        looks = {}
        for rank in (0, 1):
            phase = "communication" if rank == 1 and step % 10 < 10 * waits else "compute"
            identity = RankIdentity(rank=rank, world_size=2)
            looks[rank] = RankSample(RecordView(identity=identity, steps=step, last_step_ns=now_ns, phase=phase))
            members.by_rank[rank] = JobRank(rank, rank, looks[rank].view)
        totals.add(looks)
    return totals, members


def test_steps_their_median_over_the_whole_run_and_the_slowest_rank() -> None:
    words = announcements.summary_lines(*ran([0.1] * 300 + [4.0] + [0.3] * 100), FOLDER)

    assert words == "unhang: 401 steps, median step 100 ms, slowest rank 0\nunhang: no problem found\n"


@pytest.mark.parametrize(
    ("source", "language", "words"),
    [
        ("rhythm", "en", "unhang: 300 rounds of collectives, median round 50 ms"),
        ("rhythm", "zh", "unhang: 300 轮集合通信，每轮中位数 50 ms"),
        ("optimizer", "en", "unhang: 300 optimizer steps, median step 50 ms"),
        ("optimizer", "zh", "unhang: 优化器 300 步，每步中位数 50 ms"),
    ],
)
def test_what_was_counted_is_named(source: str, language: str, words: str) -> None:
    totals, members = ran([0.05] * 300, waits=0.3)
    for rank in members.by_rank.values():
        rank.view.step_source = source
    announcements.set_language(language)

    assert announcements.summary_lines(totals, members, FOLDER).splitlines()[0] == words


def test_an_even_job_has_no_slowest_rank() -> None:
    words = announcements.summary_lines(*ran([0.05] * 300, waits=0.3), FOLDER)

    assert words.splitlines()[0] == "unhang: 300 steps, median step 50 ms"


def test_a_stall_makes_nobody_the_slowest_rank() -> None:
    totals, members = ran([0.05] * 30, waits=0.3)
    stands = {
        rank: RankSample(RecordView(identity=RankIdentity(rank=rank, world_size=2), steps=30, phase=phase))
        for rank, phase in ((0, "compute"), (1, "communication"))
    }
    for _ in range(500):
        totals.add(stands)

    assert totals.slowest(members.by_rank) is None


def test_what_was_found_is_told_once_with_its_folder() -> None:
    totals, members = ran([0.1] * 3)
    totals.findings += ["slow-rank", "rank-crashed", "slow-rank"]

    words = announcements.summary_lines(totals, members, FOLDER)
    assert words.splitlines()[1] == "unhang: found: slow-rank, rank-crashed; see /tmp/run"


def test_a_job_without_steps_or_ranks_says_so() -> None:
    assert announcements.summary_lines(*ran([]), FOLDER).startswith("unhang: could not observe")
    members = ran([0.1])[1]
    assert announcements.summary_lines(RunTotals(), members, FOLDER) == "unhang: no problem found\n"


def test_a_full_disk_is_why_looks_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    totals, members = ran([0.1] * 300)
    totals.failed_samples = 4
    assert "4 samples failed: see" in announcements.summary_lines(totals, members, Path("/"))
    monkeypatch.setattr(announcements, "MIN_FREE_BYTES", 1 << 62)

    assert announcements.summary_lines(totals, members, Path("/")).endswith(
        "no problem found, but 4 samples failed: / is full\n"
    )
    assert "see /nowhere" in announcements.summary_lines(totals, members, Path("/nowhere"))


def test_a_folder_of_any_name_stays_on_its_line_and_can_be_typed() -> None:
    totals, members = ran([0.1] * 300)
    totals.findings.append("rank-crashed")
    folder = Path("/runs/a 'b'\n\x1b[31mred")

    (_, found) = announcements.summary_lines(totals, members, folder).splitlines()
    assert found == "unhang: found: rank-crashed; see /runs/a 'b' red"
    summary = VerdictSummary(1, "crash", "crash", "rank-crashed", "certain", (0,), "", "…", 0.0, None, *[False] * 4)
    told = announcements.verdict(summary, "CRASH", folder).splitlines()
    assert shlex.split(told[-2])[-1] == "/runs/a 'b' red"


def test_the_same_in_chinese() -> None:
    announcements.set_language("zh")

    words = announcements.summary_lines(*ran([0.1] * 300), FOLDER)

    assert words == "unhang: 300 步，每步中位数 100 ms，最慢的 rank 0\nunhang: 没有发现问题\n"
    assert announcements.countdown(60) == "unhang: 仍然卡住；等待将在 60 秒后超时\n"


def test_what_went_wrong_with_us_is_said_by_rank() -> None:
    _, members = ran([0.1, 0.1])
    members.by_rank[1].pid = 4711

    lines = list(
        announcements.internal_error_lines({4711: ["1763.250 no room for the record: OSError: full"], 12: []}, members)
    )

    assert lines == [
        "unhang: limited data for process 12:\n",
        "unhang: limited data for rank 1: no room for the record: OSError: full\n",
    ]
