"""The quiet line says what is known of the rank that is waited for, and nothing where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.records.record_views import Identity, MarkedPhase, Place, RecordView
from unhang.watch.job.detection import Doing, Standing
from unhang.watch.job.members import Member, Members
from unhang.watch.reporting import announcements

DOWNLOAD = MarkedPhase("download", since_ns=0)
HERE = Place("/job/train.py", 8)


def line(view: RecordView, what: Doing) -> str:
    """Rank 1 has waited 7 s for rank 0, which is ``view`` and does ``what``."""
    view.identity = Identity(pid=10, rank=0, world_size=2)
    members = {0: Member(0, 10, view), 1: Member(1, 11, RecordView(Identity(pid=11, rank=1, world_size=2)))}
    standing = Standing(
        doing={0: what, 1: Doing.WAITING},
        waiters=(1,),
        laggards=(0,),
        since_ns=0,
        waited_s=7.0,
        urgent=False,
        due=True,
        rhythm=True,
    )
    return announcements.waiting(standing, Members(Path("records"), members), None)


@pytest.mark.parametrize(
    ("view", "what", "told"),
    [
        (RecordView(user=HERE), Doing.IDLE, "it stands still, train.py:8"),
        (RecordView(mark=DOWNLOAD, user=HERE), Doing.IDLE, "it is in download, as marked, train.py:8"),
        (RecordView(mark=DOWNLOAD), Doing.STOPPED, "it is stopped"),
        (RecordView(closed=True), Doing.OVER, "it has closed its group"),
        (RecordView(exiting=True), Doing.OVER, "its program has ended"),
        (RecordView(), Doing.WAITING, "it has begun to wait too"),
    ],
)
def test_what_the_late_rank_does(view: RecordView, what: Doing, told: str) -> None:
    assert line(view, what) == f"unhang: rank 1 has been waiting for rank 0 for 7 s: {told}\n"
