"""The quiet line says what is known of the rank that is waited for, and nothing where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.watch.job.job_ranks import JobRank, JobRanks
from unhang.watch.job.wait_detection import WaitSnapshot
from unhang.watch.reporting import announcements
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.record_views import CodeLine, MarkedPhase, RankIdentity, RecordView

DOWNLOAD = MarkedPhase("download", since_ns=0)
HERE, AT_WORK = CodeLine("/job/train.py", 8), CodeLine("/job/train.py", 9, "evaluate")


def line(view: RecordView, what: RankActivity) -> str:
    """Rank 1 has waited 7 s for rank 0, which is ``view`` and does ``what``."""
    view.identity = RankIdentity(pid=10, rank=0, world_size=2)
    members = {0: JobRank(0, 10, view), 1: JobRank(1, 11, RecordView(RankIdentity(pid=11, rank=1, world_size=2)))}
    snapshot = WaitSnapshot(
        doing={0: what, 1: RankActivity.WAITING},
        waiters=(1,),
        laggards=(0,),
        since_ns=0,
        waited_s=7.0,
        urgent=False,
        due=True,
        rhythm=True,
    )
    return announcements.waiting_line(snapshot, JobRanks(Path("records"), members), None)


@pytest.mark.parametrize(
    ("view", "what", "told"),
    [
        (RecordView(user=HERE), RankActivity.IDLE, "it is not moving, train.py:8"),
        (RecordView(user=AT_WORK), RankActivity.BUSY, "it is busy in evaluate, train.py:9"),
        (RecordView(user=AT_WORK), RankActivity.IDLE, "it is in evaluate, train.py:9"),
        (RecordView(mark=DOWNLOAD, user=HERE), RankActivity.IDLE, "it is in download, as marked, train.py:8"),
        (RecordView(mark=DOWNLOAD), RankActivity.STOPPED, "it is stopped"),
        (RecordView(closed=True), RankActivity.OVER, "it has closed its process group"),
        (RecordView(exiting=True), RankActivity.OVER, "its program has ended"),
        (RecordView(), RankActivity.WAITING, "it is waiting too now"),
    ],
)
def test_what_the_late_rank_does(view: RecordView, what: RankActivity, told: str) -> None:
    assert line(view, what) == f"unhang: rank 1 has been waiting for rank 0 for 7 s: {told}\n"
