"""What the lines of a stack dump tell, put together: processes, the threads of each, their frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.stack_limits import FrameBudget, FrameKeeper
from unhang.findings import Source


@dataclass(slots=True)
class OpenProcess:
    """A process whose threads are being read."""

    dump: StackDump
    threads: list[ThreadStack] = field(default_factory=list)


class StackCollector:
    """Tell it where a process and a thread begin, and every frame, innermost first; then ask for the ``dumps``."""

    def __init__(self, format_name: str, source: str, rank: int | None, budget: FrameBudget) -> None:
        self._format, self._source, self.rank = format_name, source, rank
        self.budget = budget
        self.processes: list[OpenProcess] = []
        self.thread: ThreadStack | None = None
        """The one whose frames are being read."""
        self._frames = FrameKeeper()

    def begin_process(self, line: int, pid: int | None = None, *, command: str = "", fatal: str = "") -> None:
        """Another process begins."""
        self.end_thread()
        where = Source(self._source, line)
        self.processes.append(
            OpenProcess(StackDump(where, self.rank, pid, (), self._format, command=command, fatal=fatal))
        )

    def begin_thread(self, thread: ThreadStack) -> None:
        """Another thread of the process begins."""
        self.end_thread()
        self.thread, self._frames = thread, FrameKeeper()

    def add(self, frame: Frame, line: int) -> None:
        """The next frame outwards."""
        if self.budget.take(line):
            self._frames.add(frame)

    @property
    def has_frames(self) -> bool:
        """Whether the thread has any yet."""
        return bool(self._frames.frames())

    def end_thread(self) -> None:
        """Hand the thread that is being read to its process."""
        if self.thread is not None:
            self.processes[-1].threads.append(replace(self.thread, frames=self._frames.frames()))
        self.thread = None

    def dumps(self) -> Iterator[StackDump]:
        """All processes that showed anything."""
        self.end_thread()
        for process in self.processes:
            if process.threads or process.dump.command:
                process.dump.threads = tuple(process.threads)
                yield process.dump
