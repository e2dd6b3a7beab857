"""Run tasks on a cluster of another library: few in flight, and what ends workers found, left out and said.

A task that is lost is given again, each of its files alone; a file that is lost then too is given once more while
nothing else runs, because a worker that ends takes everything with it that it was reading.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from unhang.evidence.engines.engine import lost_part
from unhang.evidence.engines.on_worker import WorkerFacts, check_workers
from unhang.evidence.engines.tasks import ReadTask
from unhang.evidence.evidence_parts import EvidencePart

Handle = TypeVar("Handle")
OWN_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
START_S: Final = 60.0
"""So long a cluster has to answer before the first task."""
_IN_FLIGHT: Final = 2
"""Tasks a worker has at most: one that it reads, and the next one."""
_SILENCE_S: Final = 600.0
_BYTES_A_SECOND: Final = 1 << 20
"""How long no task may be done: so long, and the time the largest takes at the slowest."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A task that gave nothing. ``deaths``: how often its worker ended; ``reason`` where it failed otherwise."""

    deaths: int = 0
    reason: str = ""


class Cluster(Protocol[Handle]):
    """What is different between the libraries."""

    def about(self, paths: Sequence[str]) -> list[WorkerFacts]:
        """Its workers. Raises UsageError when one does not answer."""

    def workers(self) -> int:
        """How many tasks it reads at the same time."""

    def submit(self, task: ReadTask) -> Handle:
        """Give it one task."""

    def next_done(self, running: Collection[Handle], limit_s: float) -> Handle | None:
        """One of ``running`` that is over; None where none is within ``limit_s``."""

    def result(self, handle: Handle) -> EvidencePart | Lost:
        """What a task that is over gave."""

    def cancel(self, handles: Collection[Handle]) -> None:
        """Nobody wants these any more."""

    def close(self) -> None:
        """Leave it; end it, if it was started for us."""


def engine_on(cluster: Cluster[Handle], paths: Sequence[str]) -> ClusterEngine[Handle]:
    """The engine, once all workers can read ``paths``. Raises UsageError, and leaves the cluster, where they cannot."""
    try:
        check_workers(cluster.about(paths), OWN_PYTHON)
    except BaseException:
        cluster.close()
        raise
    return ClusterEngine(cluster)


class ClusterEngine(Generic[Handle]):
    """Reads on ``cluster``."""

    def __init__(self, cluster: Cluster[Handle]) -> None:
        self._cluster = cluster
        self._running: dict[Handle, ReadTask] = {}
        self._deaths: Counter[int] = Counter()
        """How often a worker ended while it read a file, by the file's place."""

    def workers(self) -> int:
        """How many tasks are read at the same time."""
        return self._cluster.workers()

    def run(self, tasks: Sequence[ReadTask]) -> Iterator[tuple[ReadTask, EvidencePart]]:
        """What each of ``tasks`` gave; a file that ends workers is left out, and said."""
        waiting = deque(sorted(tasks, key=lambda task: task.size, reverse=True))
        suspects: deque[ReadTask] = deque()
        try:
            while waiting or self._running or suspects:
                self._give(waiting)
                alone = not self._running
                if alone:
                    self._give(suspects, at_most=1)
                task, result = self._next()
                if task is None:
                    yield from self._given_up([*self._running.values(), *waiting, *suspects])
                    return
                if isinstance(result, EvidencePart):
                    yield task, result
                elif len(task.files) > 1:
                    waiting.extendleft(reversed(task.singles()))
                elif alone:
                    yield task, self._lost(task, result)
                else:
                    suspects.append(task)
        finally:
            self._cluster.cancel(list(self._running))
            self._running.clear()

    def _give(self, waiting: deque[ReadTask], at_most: int | None = None) -> None:
        most = _IN_FLIGHT * self._cluster.workers() if at_most is None else at_most
        while waiting and len(self._running) < most:
            task = waiting.popleft()
            self._running[self._cluster.submit(task)] = task

    def _next(self) -> tuple[ReadTask | None, EvidencePart | Lost]:
        largest = max(task.size for task in self._running.values())
        handle = self._cluster.next_done(list(self._running), _SILENCE_S + largest / _BYTES_A_SECOND)
        if handle is None:
            return None, Lost()
        task, result = self._running.pop(handle), self._cluster.result(handle)
        if isinstance(result, Lost):
            self._deaths.update({place: result.deaths for place, _ in task.files})
        return task, result

    def _lost(self, task: ReadTask, lost: Lost) -> EvidencePart:
        why = lost.reason or f"reading it ended the worker {self._deaths[task.place]} times"
        return lost_part(task, f"{why}; it was skipped")

    def _given_up(self, tasks: Sequence[ReadTask]) -> Iterator[tuple[ReadTask, EvidencePart]]:
        for task in tasks:
            for one in task.singles():
                yield one, lost_part(one, "the workers of the cluster gave no answer any more; it was not read")

    def close(self) -> None:
        """Leave the cluster."""
        self._cluster.close()
