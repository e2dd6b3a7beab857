"""gdb ``thread apply all bt`` (also ``py-bt``), pstack and eu-stack.

Example::

    Thread 1 (Thread 0x7fe4ad2a3b80 (LWP 7709) "python3"):
    #0  0x00007fe4acb1a26f in __GI___poll (fds=0x7fe4, nfds=1) at ../sysdeps/poll.c:29
    #6  0x00007fe49c312501 in c10d::ProcessGroupGloo::runLoop(int) () from /usr/lib/libtorch_cpu.so
    Traceback (most recent call first):              <- py-bt
      File "train.py", line 18, in main
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.py_spy import opening_of_last_parenthesis
from unhang.evidence.stacks.stack_limits import MAX_LINE, FrameBudget, FrameKeeper
from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

THREAD = late_pattern(
    r"^Thread (?P<number>\d+) \((?:Thread (?P<id>0x[0-9a-f]+) )?\(?(?:LWP|process) (?P<lwp>\d+)\)?"
    r"(?:,? ?\"(?P<name>[^\"]*)\")?\)?(?: \(Exiting\))?\)?:"
)
THREAD_ANYWHERE = late_pattern(r"^(?:Thread \d+ \(.*(?:LWP|process) \d+|TID \d+:)", re.MULTILINE)
_FRAME = late_pattern(r"^#(?P<number>\d+)\s+(?:(?P<address>0x[0-9a-f]+)\s+(?:in\s+)?)?(?P<rest>\S.*)$")
_TID = late_pattern(r"^TID (?P<lwp>\d+):")
_PID = late_pattern(r"^PID (?P<pid>\d+) - (?:process|core)")
_ATTACH = late_pattern(r"^(?:Attaching to (?:program: .*, )?process|\$ ?p?stack|Process) (?P<pid>\d+)")
_PY_FRAME = late_pattern(r'^\s+File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.+)$')
_PY_BT_FULL = late_pattern(
    r"^#\d+ Frame 0x[0-9a-f]+, for file (?P<file>.*), line (?P<line>\d+), in (?P<function>\S+) ?\("
)


@dataclass(slots=True)
class _Dump:
    line: int
    pid: int | None = None
    threads: dict[int, ThreadStack] = field(default_factory=dict)
    """By gdb's number of the thread, in the order of the file."""


@dataclass(slots=True)
class _OpenThread:
    number: int
    thread_id: str
    name: str
    line: int
    keeper: FrameKeeper = field(default_factory=FrameKeeper)
    python: bool = False


def looks_like(text: str) -> bool:
    """True when ``text`` holds a thread heading or frames as gdb, pstack or eu-stack write them."""
    lines = text.splitlines()[:2000]
    if any(THREAD.match(line) or _TID.match(line) for line in lines):
        return True
    numbered = sum(1 for line in lines if re.match(r"^#\d+\s+0x[0-9a-f]{6,} in \S", line))
    return numbered >= 2


def read(text: str, *, source: str, rank: int | None, budget: FrameBudget) -> Iterator[StackDump]:
    """Every process in ``text``. Only py-bt knows Python frames; all others are native."""
    reader = _Reader(budget)
    for number, line in enumerate(text.splitlines(), 1):
        reader.feed(line[:MAX_LINE].rstrip(), number)
        yield from reader.finished(source, rank)
    reader.end_dump()
    yield from reader.finished(source, rank)


class _Reader:
    def __init__(self, budget: FrameBudget) -> None:
        self._budget = budget
        self._dump: _Dump | None = None
        self._open: _OpenThread | None = None
        self._done: list[_Dump] = []

    def feed(self, line: str, number: int) -> None:
        if found := THREAD.match(line):
            self._start_thread(numbers.integer(found["number"]) or 0, found["lwp"], found["name"] or "", number)
        elif found := _TID.match(line):
            count = len(self._dump.threads) + 1 if self._dump else 1
            self._start_thread(count + (1 if self._open else 0), found["lwp"], "", number)
        elif found := (_PID.match(line) or _ATTACH.match(line)):
            self.end_dump()
            self._dump = _Dump(number, numbers.integer(found["pid"]))
        elif found := _PY_BT_FULL.match(line):
            self._python(found, number)
        elif found := _FRAME.match(line):
            self._native(found, number)
        elif found := _PY_FRAME.match(line):
            self._python(found, number)

    def finished(self, source: str, rank: int | None) -> Iterator[StackDump]:
        """Dumps that are complete, each given once."""
        while self._done:
            dump = self._done.pop(0)
            yield StackDump(Source(source, dump.line), rank, _pid(dump), tuple(dump.threads.values()), "gdb")

    def end_dump(self) -> None:
        """Close the process that is being read."""
        self._close()
        if self._dump is not None and self._dump.threads:
            self._done.append(self._dump)
        self._dump = None

    def _start_thread(self, number: int, lwp: str, name: str, line: int) -> None:
        self._close()
        if self._dump is not None and number in self._dump.threads:
            self.end_dump()
        self._dump = self._dump or _Dump(line)
        self._open = _OpenThread(number, lwp, name, line)

    def _native(self, found: re.Match[str], line: int) -> None:
        if self._open is None or (found["number"].strip("0") == "" and self._open.keeper.frames()):
            if self._open is not None and self._open.python:
                return
            self._restart(line)
        assert self._open is not None
        if self._budget.take(line):
            self._open.keeper.add(native_frame(found["rest"], found["address"] or ""))

    def _restart(self, line: int) -> None:
        """Frames without a heading: a process with one thread, or the next of several files put together."""
        self._start_thread(self._open.number if self._open else 1, "", "", line)

    def _python(self, found: re.Match[str], line: int) -> None:
        if self._open is None:
            self._restart(line)
        assert self._open is not None
        self._open.python = True
        if self._budget.take(line):
            self._open.keeper.add(Frame(found["function"], found["file"], numbers.integer(found["line"])))

    def _close(self) -> None:
        if self._open is not None and self._dump is not None:
            opened = self._open
            thread = ThreadStack(opened.name, opened.thread_id, opened.keeper.frames(), line=opened.line)
            self._dump.threads[opened.number] = thread
        self._open = None


def native_frame(rest: str, address: str) -> Frame:
    """A frame from what stands after ``#3  0x7f… in``: ``function (args) at file:line`` or ``… from library``."""
    call, file = rest, ""
    cut = max((rest.rfind(word) for word in (") from ", ") at ")), default=-1)
    if cut >= 0:
        call, file = rest[: cut + 1], rest[cut + 1 :].lstrip().partition(" ")[2]
    place, colon, number = file.rpartition(":")
    if colon and number.isdigit():
        file = place
    return Frame(_function(call) or address or "??", file, None, native=True)


def _function(call: str) -> str:
    """``c10d::Reducer::run(int) (this=0x1)`` without its values: ``c10d::Reducer::run(int)``."""
    if not call.endswith(")"):
        return call.strip()
    opening = opening_of_last_parenthesis(call)
    return call.partition(" (")[0].strip() if opening is None else call[:opening].strip() or call


def _pid(dump: _Dump) -> int | None:
    """The first thread of a process has the process's number; gdb counts it as thread 1."""
    if dump.pid is not None:
        return dump.pid
    first = dump.threads.get(1)
    return numbers.integer(first.thread_id) if first is not None else None
