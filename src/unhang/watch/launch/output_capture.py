"""Keep what a command prints without its streams ever depending on our disk: as ``tee`` does, and without its waits.

The command writes into a pipe. A small process of its own hands everything on to where it would have gone, at once and
in its order, and puts it into a queue that a thread writes to the file. A disk that is full, gone, read-only or slow
costs the rest of the file, which one line says at the end, and the command nothing. The process ends with the last
writer: where we are killed the command's output still arrives.
"""

from __future__ import annotations

import fcntl
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from unhang.report.language import translate
from unhang.report.printable import one_line
from unhang.sentences import Text, say
from unhang.watch import private_files
from unhang.watch.launch.helper_process import detach, fork_helper, new_pipe

CHUNK = 1 << 16
PIPE = 1 << 20
"""Asked for, so that a burst does not wait for us; the kernel may give less."""
MAX_QUEUED_BYTES = 64 << 20
"""Bytes that may wait for a slow disk."""
FLUSH_S = 2.0
"""How long the end of the job waits for a slow disk."""
_READER_GONE = 3


def output_targets() -> list[tuple[int, ...]]:
    """The standard streams that lead somewhere; those that lead to one place together, so that their order stays."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for target in (1, 2):
        with suppress(OSError):
            told = os.fstat(target)
            if not os.get_inheritable(target):
                continue  # closed for the command: the number is ours
            found.setdefault((told.st_dev, told.st_ino, told.st_rdev), []).append(target)
    return [tuple(group) for group in found.values()]


class OutputCapture:
    """One stream of the command (or both, where they lead to one place), as the command runner sees it."""

    def __init__(
        self,
        targets: tuple[int, ...],
        path: Path,
        lang: str,
        held: Sequence[int] = (),
        on_cut: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the file and begin. ``held``: descriptors to keep open as long as the file is written; ``on_cut`` is
        called once not all of it can be kept.

        Raises:
            OSError: there is no room for a file, a pipe or a process.
        """
        self._targets, self._path, self._lang = targets, path, lang
        self._held, self._on_cut = held, on_cut
        private_files.make_folder(path.parent)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._read, self._write = new_pipe()
        self._over_read, self._over_write = new_pipe()
        self._done_read, self._done_write = new_pipe()
        self._drained = self._said = False
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._write, fcntl.F_SETPIPE_SZ, PIPE)
        self._pid = fork_helper(self._relay)

    @property
    def actions(self) -> list[tuple[int, ...]]:
        """For ``posix_spawn``: the command's streams are ours."""
        return [(os.POSIX_SPAWN_DUP2, self._write, target) for target in self._targets]

    def close_child_end(self) -> None:
        """The command has its end of the pipe: without ours its last writer ends it."""
        os.close(self._write)

    def over(self) -> None:
        """The command has ended: what it left in the pipe is all that is waited for."""
        if self._over_write >= 0:
            os.close(self._over_write)
            self._over_write = -1

    def drained(self) -> bool:
        """Whether all the command printed is out, or nobody reads it any more."""
        self._drained = self._drained or bool(select.select([self._done_read], [], [], 0)[0])
        return self._drained

    def reaped(self, pid: int, status: int) -> None:
        """Process ``pid`` has ended. If it was ours and somebody killed it, another goes on; the file has a gap."""
        if pid != self._pid:
            return
        if os.WIFSIGNALED(status) and not self._drained:
            self._on_cut()
            self._pid = fork_helper(self._relay)
            return
        self._pid, self._drained = 0, True
        os.close(self._read)  # the last one: who still writes is told that nobody reads

    def _relay(self) -> int:
        target = self._targets[-1]
        complaints = os.dup(2) if _is_open(2) else os.open(os.devnull, os.O_WRONLY)
        kept = (self._read, self._file, self._over_read, self._done_write, complaints, *self._held)
        detach(kept, (0, *({1, 2} - {*self._targets})))
        log = _LogWriter(self._file, self._on_cut)
        for data in _pieces(self._read, self._over_read, lambda: self._say_drained(log, complaints)):
            if not _write_all(target, data):
                self._say_drained(log, complaints)
                return _READER_GONE
            log.add(data)
        self._say_drained(log, complaints)
        for number in (1, 2, complaints):
            with suppress(OSError):
                os.close(number)  # a thread that waits for a dead disk would hold them
        return 0

    def _say_drained(self, log: _LogWriter, complaints: int) -> None:
        if self._said:
            return
        text = log.finish(self._path)
        if text is not None:
            _write_all(complaints, f"unhang: {one_line(translate(text, self._lang))}\n".encode("utf-8", "replace"))
        with suppress(OSError):  # the command runner was killed
            os.write(self._done_write, b".")
        self._said = True


class _LogWriter:
    """The file, written by a thread of its own: nobody waits for a disk."""

    def __init__(self, number: int, on_cut: Callable[[], None] = lambda: None) -> None:
        self._number, self._on_cut = number, on_cut
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._written = self._added = 0
        self._stopped: Text | str | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def add(self, data: bytes) -> None:
        """Put ``data`` in line, unless the file has ended before."""
        self._added += len(data)
        if self._stopped is None and self._added - self._written > MAX_QUEUED_BYTES:
            self._stop(say("the disk is too slow"))
        if self._stopped is None:
            self._queue.put(data)

    def finish(self, path: Path) -> Text | None:
        """Wait a moment for the disk; what is lost, None when nothing is."""
        until = time.monotonic() + FLUSH_S
        while self._stopped is None and self._written < self._added and time.monotonic() < until:
            time.sleep(0.005)
        with suppress(OSError):
            if self._added and not os.fstat(self._number).st_nlink:
                self._stop(say("its folder was removed"))
                self._written = 0
        if self._written >= self._added:
            return None
        if self._stopped is None:
            self._stop(say("the disk is too slow"))
        return say(
            "the capture stopped ({reason}): {path} has the first {kept} bytes; the next {lost} bytes were not saved",
            reason=self._stopped,
            path=str(path),
            kept=f"{self._written:,}",
            lost=f"{self._added - self._written:,}",
        )

    def _stop(self, because: Text | str) -> None:
        self._stopped = because
        self._on_cut()

    def _work(self) -> None:
        while self._stopped is None:
            left = memoryview(self._queue.get())
            while left and self._stopped is None:
                try:
                    count = os.write(self._number, left)
                except OSError as error:
                    self._stop(error.strerror or str(error))
                    return
                left = left[count:]
                self._written += count


def _pieces(source: int, over: int, drained: Callable[[], None]) -> Iterator[bytes]:
    """What comes out of the pipe until its last writer is gone; ``drained`` when it is empty at the command's end."""
    ended = False
    while True:
        ready = select.select([source] if ended else [source, over], [], [], 0 if ended else None)[0]
        if source in ready:
            data = os.read(source, CHUNK)
            if not data:
                return
            yield data
        elif ended:
            drained()
            select.select([source], [], [])  # a process the command left behind may still print
        ended = ended or over in ready


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _write_all(target: int, data: bytes) -> bool:
    """Whether somebody still reads; waits as long as the reader does, as the command itself would."""
    left = memoryview(data)
    with suppress(OSError):
        while left:
            if not os.get_blocking(target):
                select.select([], [target], [])
            with suppress(BlockingIOError):
                left = left[os.write(target, left) :]
    return not left
