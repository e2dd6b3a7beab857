"""Processes of our own that read: many cores read, and what ends such a process costs what it was reading at most.

They are fresh interpreters, not forks: a process with threads must not fork, and the caller may have some. An answer is
a pickle of our own items, of which nothing but these is taken.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final, Generic, Protocol, TypeVar, cast

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Asked_contra = TypeVar("Asked_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)

_PLAIN: Final = frozenset(
    (package + module, name)
    for package, module, name in (
        ("collections", "", "Counter"),
        ("msgspec", "._utils", "rebuild"),
        ("numpy", "", "dtype"),
        ("numpy", "", "ndarray"),
        *(("numpy", core + ".multiarray", "_reconstruct") for core in ("._core", ".core")),
        *(("numpy", core + ".numeric", "_frombuffer") for core in ("._core", ".core")),
    )
)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class WorkerProcess:
    """One such process, which runs ``program``. Raises ``OSError`` when it cannot be started.

    ``answer_types``: modules of which an answer may hold instances.
    """

    def __init__(self, program: str, *arguments: str, answer_types: Sequence[str]) -> None:
        if not sys.executable:
            raise FileNotFoundError("this Python does not know its own executable")
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps([path for path in sys.path if path]), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Python's own unpickler complains there of lengths that cannot be
        )
        self._questions = cast("BinaryIO", self._process.stdin)
        self.answers = cast("BinaryIO", self._process.stdout)
        self._answer_types = answer_types
        self.deadline = 0.0
        """When (on the monotonic clock) its answer is no longer waited for."""

    def send(self, question: Iterable[bytes], limit_s: float) -> None:
        """Ask one question, whose answer may take ``limit_s``."""
        self.deadline = time.monotonic() + limit_s
        with suppress(BrokenPipeError):  # it ended; its closed answers are noticed next
            for part in question:
                self._questions.write(part)
            self._questions.flush()

    def received(self) -> Any:
        """Its answer, waited for until the deadline; None when it ended, or has to be ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            if not selector.select(max(0.0, self.deadline - time.monotonic())):
                return None
        head = self.answers.read(8)
        size = int.from_bytes(head, "little")
        body = self.answers.read(size) if len(head) == 8 else b""
        if not body or len(body) != size:
            return None
        try:
            return ItemUnpickler(io.BytesIO(body), self._answer_types).load()
        except Exception:  # noqa: BLE001 - what a harmed worker answers may raise anything
            self._process.kill()
            return None

    def ended_by(self) -> str | None:
        """How it ended, without an answer, in words (``signal SIGKILL``); None when it did not answer in time."""
        late = time.monotonic() >= self.deadline
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if late else 10)
        code = self._process.returncode
        return None if code is None else _exit_text(code)

    def end(self) -> None:
        """End the process, at once if need be."""
        for pipe in (self._questions, self.answers):
            with suppress(BrokenPipeError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
            return
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # one that waits for a dead file system cannot be killed
            self._process.wait(5)


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def packed(answer: Any) -> bytes:
    """``answer`` as a worker sends it: its length in 8 bytes before it."""
    body = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(8, "little") + body


class ItemUnpickler(pickle.Unpickler):
    """A worker may have been harmed by what it read: of its answer only plain values, items and arrays are taken."""

    def __init__(self, file: BinaryIO, answer_types: Sequence[str]) -> None:
        super().__init__(file)
        self._answer_types = answer_types

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """A type of an item. Raises :class:`pickle.UnpicklingError` for everything else."""
        if (module_name, global_name) in _PLAIN:
            return super().find_class(module_name, global_name)
        if module_name in self._answer_types and "." not in global_name:
            found = super().find_class(module_name, global_name)
            if isinstance(found, type) and found.__module__ == module_name:
                return found
        raise pickle.UnpicklingError(f"a worker answered with {module_name}.{global_name}")


class Reader(Protocol[Asked_contra, Answer_co]):
    """A worker of a pool: it is asked for a batch, and answers or ends."""

    deadline: float
    answers: BinaryIO

    def ask(self, batch: Sequence[Asked_contra]) -> None:
        """Let it read ``batch``; one batch at a time."""

    def answer(self) -> Answer_co | None:
        """Its answer; None when there is none."""

    def end_without_answer(self, one: Asked_contra) -> Answer_co:
        """End it, which gave no answer for ``one`` alone, and say why there is none."""

    def end(self) -> None:
        """End it, at once if need be."""


class WorkerPool(Generic[Asked, Answer]):
    """Workers and what each is busy with. ``here`` reads a batch where no worker can be started."""

    def __init__(
        self,
        workers: int,
        waiting: deque[tuple[int, list[Asked]]],
        start: Callable[[], Reader[Asked, Answer]],
        here: Callable[[list[Asked]], Answer],
    ) -> None:
        self.waiting = waiting
        self._start_one = start
        self._here = here
        self._selector = selectors.DefaultSelector()
        self._busy: dict[Reader[Asked, Answer], tuple[int, list[Asked]]] = {}
        self._workers: list[Reader[Asked, Answer]] = []
        for _ in range(workers):
            self._start()

    def close(self) -> None:
        """End all workers."""
        self._selector.close()
        for worker in self._workers:
            worker.end()

    def next_batch(self) -> tuple[int, Answer]:
        """The next finished batch: index of its first, and the answer."""
        while self._busy:
            worker = self._ready()
            start, batch = self._busy.pop(worker)
            answer = worker.answer()
            if answer is not None:
                self._give(worker)
                return start, answer
            lost = self._replace(worker, start, batch)
            if lost is not None:
                return start, lost
        start, batch = self.waiting.popleft()  # no worker could be started
        return start, self._here(batch)

    def _ready(self) -> Reader[Asked, Answer]:
        """The worker that answered or ended, or the one that has been waited for long enough."""
        patient = min(self._busy, key=lambda worker: worker.deadline)
        ready = self._selector.select(max(0.0, patient.deadline - time.monotonic()))
        return next((key.data for key, _ in ready if key.data in self._busy), patient)

    def _start(self) -> None:
        if not self.waiting:
            return
        try:
            worker = self._start_one()
        except OSError:
            return  # the others do its work; without any it is done here
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        self._give(worker)

    def _give(self, worker: Reader[Asked, Answer]) -> None:
        if not self.waiting:
            self._selector.unregister(worker.answers)
            return
        start, batch = self.waiting.popleft()
        self._busy[worker] = (start, batch)
        worker.ask(batch)

    def _replace(self, worker: Reader[Asked, Answer], start: int, batch: list[Asked]) -> Answer | None:
        """After a worker's end: its batch again one by one, or the verdict on the one that ends workers."""
        self._selector.unregister(worker.answers)
        lost = worker.end_without_answer(batch[0]) if len(batch) == 1 else None
        if lost is None:
            self.waiting.extendleft((start + index, [one]) for index, one in reversed(list(enumerate(batch))))
        worker.end()
        self._workers.remove(worker)
        self._start()
        return lost
