"""Who watches a run from outside: the snapshot for viewers, the metrics, and the history of all runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.history.run import RunEnding
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.job.wait_detection import RankActivity, WaitSnapshot
from unhang.watch.reporting import history_lookup
from unhang.watch.reporting.history_lookup import HistoryLookup
from unhang.watch.reporting.live_snapshot import LiveFile, LiveState, SnapshotBuilder
from unhang.watch.reporting.metrics_process import MetricsProcess

if TYPE_CHECKING:
    from unhang.watch.watcher import Watcher


class RunObservers:
    """Beside one watcher; nothing of it can hold the watcher up."""

    def __init__(self, watcher: Watcher) -> None:
        plan = watcher.plan
        self._watcher = watcher
        self._history = HistoryLookup()
        self._live = LiveFile(watcher.records, watcher.folder.path)
        self._live.always = bool(plan.metrics)
        self._metrics = MetricsProcess(watcher.folder.path, watcher.records, plan.metrics)

    def earlier(self) -> bytes:
        """``machine/history.json`` for the evidence of a sample."""
        return self._history.content()

    def wanted(self) -> bool:
        """Whether anybody watches the run."""
        return self._live.wanted()

    def tick(self, wait: WaitSnapshot | None) -> None:
        """Called at every tick of the watcher: write a snapshot where one is due."""
        self._metrics.reap()
        self._history.reap()
        if self._live.due():
            self._live.write(self._state(wait))

    def close(self, *, failed: bool) -> None:
        """The run is over: keep it, and leave the last snapshot behind."""
        self._history.end()
        if self._watcher.members.by_rank:  # a command without ranks is no run worth keeping
            history_lookup.add_run(self._ending(failed=failed))
        self._live.write_last(self._state(None, ended=True))
        self._metrics.end()

    def _state(self, wait: WaitSnapshot | None, *, ended: bool = False) -> LiveState:
        watcher = self._watcher
        everyone = {**watcher.members.by_rank, **watcher.absent.by_rank}
        snapshot = SnapshotBuilder(
            watcher.plan,
            watcher.folder.path,
            {rank: member.sample() for rank, member in everyone.items()},
            with_failed_exits(watcher.detector.doing, everyone, watcher.folder.path),
            watcher.detector.waits_since,
            node_of=_hosts(everyone),
            world_size=watcher.members.world_size,
        )
        return watcher.nodes.live(snapshot.state(wait, watcher.said, watcher.totals, ended=ended))

    def _ending(self, *, failed: bool) -> RunEnding:
        watcher = self._watcher
        return RunEnding(
            folder=str(watcher.folder.path),
            failed=failed,
            ended_s=time.time(),
            hosts=tuple(sorted(set(_hosts(watcher.members.by_rank).values()))),
            world_size=watcher.members.world_size,
            steps=watcher.totals.steps,
            step_s=watcher.totals.median_step_s,
        )


def with_failed_exits(
    doing: Mapping[int, RankActivity], members: Mapping[int, JobRank], folder: Path
) -> dict[int, RankActivity]:
    """``doing``; who shut down in order, but because of an exception or with an exit code, has ended badly."""
    return {
        rank: RankActivity.DEAD
        if what is RankActivity.OVER and rank in members and _failed(members[rank], folder)
        else what
        for rank, what in doing.items()
    }


def _failed(member: JobRank, folder: Path) -> bool:
    if member.ended_ns is None or member.exit_code is not None:
        return member.exit_code not in (0, None)
    return (folder / "crash" / f"rank_{member.rank}.except").exists()


def _hosts(members: Mapping[int, JobRank]) -> dict[int, str]:
    return {rank: member.registration.host for rank, member in members.items() if member.registration is not None}
