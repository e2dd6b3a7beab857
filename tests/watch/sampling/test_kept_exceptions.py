"""An exception that nobody caught is kept as text where the rank's own output does not hold it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.watch.job.job_ranks import JobRank
from unhang.watch.sampling.exit_evidence import keep_exceptions
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
