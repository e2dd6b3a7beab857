"""Read many dumps, spread over the cores.

Workers are fresh interpreters, not forks: a process with threads must not fork, and the caller may have some. They
get batches of paths as JSON lines and answer with pickles of our own items; those come from our own code on a pipe of
ours, never from a file.
"""

from __future__ import annotations

import json
import os
import pickle
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final

from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.reading import read_recording
from unhang.evidence.flight_recorder.sharing import share
from unhang.evidence.found_files import Identity
from unhang.evidence.items import Recording
from unhang.evidence.rank_names import rank_from_name
from unhang.findings import Source, Unread

INLINE_FILES: Final = 96
"""So few files are read faster than workers start (about 0.15 s)."""
MAX_JOBS: Final = 16
_BATCH: Final = 32

Item = Recording | Unread
Name = tuple[str, Identity | None]
"""A path, and which file was found there."""
Batch = list[Name]


def read_recordings(
    paths: Iterable[str | Path],
    *,
    jobs: int | None = None,
    progress: Callable[[int], object] | None = None,
    whole: bool = False,
    identities: Sequence[Identity | None] | None = None,
) -> Iterator[Item]:
    """One item for each of ``paths``, in their order: a :class:`Recording`, or :class:`Unread` with the reason.

    ``jobs`` is the number of worker processes (default: the cores this process may use, at most 16); few files are
    read in this process. ``progress`` is called with the number of files done so far. ``whole`` as in
    :func:`read_recording`, and so are ``identities``, one a path.
    """
    plain = [os.fspath(path) for path in paths]
    names: list[Name] = list(zip(plain, identities or [None] * len(plain), strict=True))
    workers = min(jobs if jobs is not None else _cores(), MAX_JOBS, -(-len(names) // _BATCH))
    inline = workers <= 1 or (jobs is None and len(names) <= INLINE_FILES) or not sys.executable
    items = _read_here(names, whole) if inline else _read_spread(names, workers, whole)
    for done, item in enumerate(items, start=1):
        yield item
        if progress is not None:
            progress(done)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read_here(names: Sequence[Name], whole: bool) -> Iterator[Item]:
    shared = SharedTables()
    for name, identity in names:
        yield read_recording(name, whole=whole, shared=shared, identity=identity)


def _read_spread(names: Sequence[Name], workers: int, whole: bool) -> Iterator[Item]:
    waiting: deque[tuple[int, Batch]] = deque()
    size = max(1, min(_BATCH, -(-len(names) // (workers * 4))))
    for index in range(0, len(names), size):
        waiting.append((index, list(names[index : index + size])))
    shared = SharedTables()
    done: dict[int, list[Item]] = {}
    following = 0
    with ExitStack() as stack:
        crew = _Crew(stack, workers, waiting, whole)
        while following < len(names):
            while following in done:
                items = share(done.pop(following), shared)
                following += len(items)
                yield from items
            if following < len(names):
                start, items = crew.next_batch()
                done[start] = items


class _Crew:
    """Worker processes and what each is busy with."""

    def __init__(self, stack: ExitStack, workers: int, waiting: deque[tuple[int, Batch]], whole: bool) -> None:
        self.stack = stack
        self.waiting = waiting
        self.whole = whole
        self.selector = stack.enter_context(selectors.DefaultSelector())
        self.busy: dict[subprocess.Popen[bytes], tuple[int, Batch]] = {}
        for _ in range(workers):
            self._start()

    def next_batch(self) -> tuple[int, list[Item]]:
        """The next finished batch: index of its first file, and its items."""
        while True:
            for key, _ in self.selector.select():
                worker: subprocess.Popen[bytes] = key.data
                start, batch = self.busy.pop(worker)
                answer = _receive(_pipe(worker.stdout))
                if answer is not None:
                    self._give(worker)
                    return start, answer
                lost = self._replace(worker, start, batch)
                if lost is not None:
                    return start, [lost]

    def _start(self) -> None:
        worker = subprocess.Popen(
            [sys.executable, "-c", _WORKER, json.dumps([path for path in sys.path if path]), str(int(self.whole))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.stack.callback(_end, worker)
        self.selector.register(_pipe(worker.stdout), selectors.EVENT_READ, worker)
        self._give(worker)

    def _give(self, worker: subprocess.Popen[bytes]) -> None:
        if not self.waiting:
            self.selector.unregister(_pipe(worker.stdout))
            return
        start, batch = self.waiting.popleft()
        self.busy[worker] = (start, batch)
        pipe = _pipe(worker.stdin)
        try:
            pipe.write(json.dumps(batch).encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            return  # it ended; its closed output is noticed next

    def _replace(self, worker: subprocess.Popen[bytes], start: int, batch: Batch) -> Item | None:
        """After a worker's death: its files again one by one, or the verdict on the file that ends workers."""
        self.selector.unregister(_pipe(worker.stdout))
        code = worker.wait(timeout=10)
        lost = None
        if len(batch) == 1:
            name, _ = batch[0]
            lost = Unread(Source(name), f"the process reading it ended (exit code {code})", rank_from_name(name))
        else:
            self.waiting.extendleft((start + index, [one]) for index, one in reversed(list(enumerate(batch))))
        if self.waiting:
            self._start()
        return lost


def _pipe(pipe: Any) -> Any:
    assert pipe is not None
    return pipe


def _end(worker: subprocess.Popen[bytes]) -> None:
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    try:
        worker.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def _receive(pipe: BinaryIO) -> list[Item] | None:
    head = pipe.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "little")
    body = pipe.read(size)
    if len(body) < size:
        return None
    items: list[Item] = pickle.loads(body)  # noqa: S301 - written by our own worker on our own pipe
    return items


_WORKER: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unhang.evidence.flight_recorder.many import serve
serve(sys.stdin.buffer, sys.stdout.buffer, whole=sys.argv[2] == "1")
"""


def serve(questions: BinaryIO, answers: BinaryIO, *, whole: bool) -> None:
    """A worker's life: for each JSON line of names one pickled list of items, its length in 8 bytes before it."""
    shared = SharedTables()
    for line in questions:
        items = [
            read_recording(name, whole=whole, shared=shared, identity=identity) for name, identity in json.loads(line)
        ]
        body = pickle.dumps(items, protocol=pickle.HIGHEST_PROTOCOL)
        answers.write(len(body).to_bytes(8, "little") + body)
        answers.flush()
