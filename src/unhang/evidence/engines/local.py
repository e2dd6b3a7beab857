"""Processes of this machine read."""

from __future__ import annotations

import gc
import json
from collections import ChainMap, deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from unhang.evidence.engines.engine import lost_part
from unhang.evidence.engines.tasks import Found, PlacedFile, ReadTask
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.evidence_reader import read_part
from unhang.evidence.found_files import FoundFile, FoundFiles
from unhang.evidence.read_limits import ReadLimits
from unhang.evidence.worker_process import WorkerPool, WorkerProcess, cores, packed

MAX_PROCESSES: Final = 16
_BYTES_A_SECOND: Final = 1 << 20
_START_S: Final = 120.0
"""A process is given up after so long and the time its files take at the slowest."""
_ANSWER_TYPES: Final = (
    "unhang.evidence.items",
    "unhang.evidence.evidence_set",
    "unhang.evidence.evidence_parts",
    "unhang.evidence.checkpoints.checkpoint",
    "unhang.findings",
    "unhang.knowledge.numbers",
    *(
        f"unhang.wire.documents.{name}"
        for name in ("bundle", "call_comparison", "earlier_verdicts", "machine_series", "other_nodes", "pace")
    ),
)
_PROGRAM: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unhang.evidence.engines.local import serve_tasks
serve_tasks(sys.stdin.buffer, sys.stdout.buffer)
"""


class LocalEngine:
    """As many processes as this one may use cores; they live as long as ``run``."""

    def workers(self) -> int:
        """How many processes read at the same time."""
        return min(cores(), MAX_PROCESSES)

    def run(self, tasks: Sequence[ReadTask]) -> Iterator[tuple[ReadTask, EvidencePart]]:
        """What each of ``tasks`` gave; a file that ends its process is left out, and said."""
        if not tasks:
            return
        log_bytes = dict(ChainMap(*(dict(task.log_bytes) for task in tasks)))
        whole = ReadTask(tuple(chain.from_iterable(task.files for task in tasks)), tasks[0].limits, log_bytes)
        biggest_first = sorted(tasks, key=lambda task: task.size, reverse=True)
        waiting = deque((task.place, list(task.files)) for task in biggest_first)
        left = len(whole.files)
        count = min(self.workers(), len(tasks))
        with closing(WorkerPool(count, waiting, lambda: _TaskWorker(whole), partial(_read_here, whole))) as pool:
            while left:
                _, (task, part) = pool.next_batch()
                left -= len(task.files)
                yield task, part

    def close(self) -> None:
        """Nothing is left running."""


class _TaskWorker(WorkerProcess):
    """A process that reads some of the files of ``whole`` after others. Raises ``OSError`` where it cannot start."""

    def __init__(self, whole: ReadTask) -> None:
        super().__init__(_PROGRAM, answer_types=_ANSWER_TYPES)
        self._whole = whole
        self._task = whole

    def ask(self, batch: Sequence[PlacedFile]) -> None:
        """Let it read ``batch``; one batch at a time."""
        self._task = task = self._whole.only(batch)
        limit_s = _START_S + task.size / _BYTES_A_SECOND
        self.send((json.dumps(_as_values(task)).encode() + b"\n",), limit_s)

    def answer(self) -> tuple[ReadTask, EvidencePart] | None:
        """What the batch gave, waited for until the deadline; None when it ended, or has to be ended."""
        part = self.received()
        return (self._task, part) if isinstance(part, EvidencePart) else None

    def end_without_answer(self, one: PlacedFile) -> tuple[ReadTask, EvidencePart]:
        """End the process, which gave no answer for the file ``one`` alone, and say why there is none."""
        how = self.ended_by()
        reason = "reading it took too long" if how is None else f"the process reading it ended ({how})"
        task = self._whole.only([one])
        return task, lost_part(task, f"{reason}; it was skipped")


def _read_here(whole: ReadTask, batch: Sequence[PlacedFile]) -> tuple[ReadTask, EvidencePart]:
    task = whole.only(batch)
    return task, read_part(task.found(), task.limits, log_bytes=task.log_bytes)


def _as_values(task: ReadTask) -> dict[str, Any]:
    """``task`` as JSON; it also keeps names that are no UTF-8."""
    return {
        "files": [_values_of(file) for _, file in task.files],
        "limits": asdict(task.limits),
        "log_bytes": task.log_bytes,
    }


def serve_tasks(questions: BinaryIO, answers: BinaryIO) -> None:
    """The life of such a process: for each task one pickled part."""
    gc.set_threshold(200_000)  # it keeps what it reads until it answers
    for line in questions:
        told = json.loads(line)
        files = [_found_file(**values) for values in told["files"]]
        part = read_part(FoundFiles(files=files), ReadLimits(**told["limits"]), log_bytes=told["log_bytes"])
        answers.write(packed(part))
        answers.flush()


def _values_of(file: Found) -> dict[str, Any]:
    path = {"path": str(file.path)} if isinstance(file, FoundFile) else {}
    return {**asdict(file), **path, "root": str(file.root)}


def _found_file(*, root: str, path: str = "", identity: Sequence[int] = (), **others: Any) -> Found:
    if path:
        return FoundFile(path=Path(path), root=Path(root), identity=(identity[0], identity[1]), **others)
    from unhang.evidence.objects.listing import FoundObject

    return FoundObject(root=Path(root), **others)
