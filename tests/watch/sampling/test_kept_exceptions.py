"""What ranks left as they ended: an exception that nobody caught, where the rank's own output does not hold it, and
where those stood whom the launcher ended then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unhang.watch.job.job_ranks import JobRank
from unhang.watch.sampling.exit_evidence import keep_exceptions, keep_exit_stacks
from unhang.wire.record_views import RankIdentity, RecordView
from unhang.wire.uncaught_exception import UncaughtException, exceptions_file

RAISED = UncaughtException(
    thread="MainThread", type="RuntimeError", message="Connection reset", file="t.py", line=9, function="main"
)


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        (RAISED.as_printed(), False),
        ("", True),  # the launcher ended it before it could print
        ("a warning\n", True),
        (None, True),
    ],
)
def test_it_is_kept_where_it_was_not_printed(printed: str | None, kept: bool, tmp_path: Path) -> None:
    file, stderr = exceptions_file(tmp_path, 1), tmp_path / "stderr.log"
    file.parent.mkdir()
    file.write_bytes(RAISED.encode())
    if printed is not None:
        stderr.write_text(printed)
    rank = JobRank(1, 11, RecordView(RankIdentity(pid=11, rank=1, world_size=2)), outputs={"stderr": str(stderr)})

    keep_exceptions({1: rank}, {}, tmp_path)

    written = tmp_path / "crash" / "rank_1.exception.log"
    assert written.exists() is kept
    assert not kept or written.read_text() == RAISED.as_printed()


def test_it_is_kept_where_all_ranks_write_to_one_file(tmp_path: Path) -> None:
    file, shared = exceptions_file(tmp_path, 1), tmp_path / "all.log"
    file.parent.mkdir()
    file.write_bytes(RAISED.encode())
    shared.write_text(RAISED.as_printed())
    views = {rank: RecordView(RankIdentity(pid=rank, rank=rank, world_size=2)) for rank in (0, 1)}
    ranks = {rank: JobRank(rank, rank, view, outputs={"stderr": str(shared)}) for rank, view in views.items()}

    keep_exceptions(ranks, {}, tmp_path)

    assert (tmp_path / "crash" / "rank_1.exception.log").exists()


@pytest.mark.parametrize(("sampled_ns", "kept"), [(9_950, True), (9_800, False)])
def test_where_a_rank_raised_counts_from_the_first_ones_crash_report(
    sampled_ns: int, kept: bool, tmp_path: Path
) -> None:
    """The watcher sees the first one's end at 10.0 s; it wrote its report at 9.9 s, and the second one fell by it."""
    report = tmp_path / "crash" / "rank_0.faulthandler"
    report.parent.mkdir()
    report.write_text("Fatal Python error: Aborted\n")
    os.utime(report, ns=(0, 1_009_900 * 10**6))
    fell, stood = (
        RecordView(
            RankIdentity(pid=pid, rank=pid, world_size=2, armed_ns=10**6), stack="train.py:41:main\n", sampled_ns=at
        )
        for pid, at in ((0, 1), (1, sampled_ns * 10**6))
    )
    ranks = {view.identity.rank: JobRank(view.identity.rank, view.identity.pid, view) for view in (fell, stood)}
    for rank, ended_ms in ((0, 10_000), (1, 10_100)):
        ranks[rank].ended_ns, ranks[rank].ended_s = ended_ms * 10**6, 1_000 + ended_ms / 1e3

    keep_exit_stacks(ranks, tmp_path)

    assert (tmp_path / "stacks" / "rank_1.txt").exists() is kept
