"""A wait that only seemed to be over is the same one; a wait for others, or a later one, is not."""

from __future__ import annotations

import pytest

from unhang.watch.job.wait_detection import WaitSnapshot
from unhang.watch.stall_episode import StallEpisode
from unhang.wire.documents.live_state import RankActivity


def snapshot(waiters: tuple[int, ...], laggards: tuple[int, ...], waited_s: float) -> WaitSnapshot:
    doing = dict.fromkeys((*waiters, *laggards), RankActivity.WAITING)
    return WaitSnapshot(doing, waiters, laggards, 0, waited_s, urgent=True, due=True, rhythm=True)


@pytest.mark.parametrize(
    ("waiters", "laggards", "waited_s", "same"),
    [
        ((0,), (1, 2), 9.0, True),  # rank 2 was heard late: it seemed to go on
        ((0,), (1, 2), 0.5, False),  # it began after the other had ended
        ((1,), (3,), 9.0, False),
        ((0, 1, 2), (), 9.0, False),
    ],
)
def test_a_wait_that_seemed_to_be_over(
    waiters: tuple[int, ...], laggards: tuple[int, ...], waited_s: float, *, same: bool
) -> None:
    episode = StallEpisode(snapshot((2, 0), (1,), 10.0))

    assert episode.is_same_wait(snapshot(waiters, laggards, waited_s), for_s=1.0) is same


def test_when_nobody_is_late_it_is_the_same_while_nobody_is() -> None:
    episode = StallEpisode(snapshot((0, 1), (), 10.0))

    assert episode.is_same_wait(snapshot((1,), (), 10.0), for_s=1.0)
    assert not episode.is_same_wait(snapshot((1,), (0,), 10.0), for_s=1.0)
