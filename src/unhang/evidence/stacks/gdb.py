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

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.collected_stacks import StackCollector
from unhang.evidence.stacks.py_spy import opening_of_last_parenthesis
from unhang.evidence.stacks.stack_limits import MAX_LINE, FrameBudget
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


def looks_like(text: str) -> bool:
    """True when ``text`` holds a thread heading or frames as gdb, pstack or eu-stack write them."""
    lines = text.splitlines()[:2000]
    if any(THREAD.match(line) or _TID.match(line) for line in lines):
        return True
    numbered = sum(1 for line in lines if re.match(r"^#\d+\s+0x[0-9a-f]{6,} in \S", line))
    return numbered >= 2


def read(text: str, *, source: str, rank: int | None, budget: FrameBudget) -> Iterator[StackDump]:
    """Every process in ``text``. Only py-bt knows Python frames; all others are native."""
    reader = _Reader(StackCollector("gdb", source, rank, budget))
    for number, line in enumerate(text.splitlines(), 1):
        reader.feed(line[:MAX_LINE].rstrip(), number)
    yield from reader.stacks.dumps()


class _Reader:
    def __init__(self, stacks: StackCollector) -> None:
        self.stacks = stacks
        self._numbers: set[int] = set()
        """gdb's numbers of the threads of the process."""
        self._number = 1
        self._in_python = False

    def feed(self, line: str, number: int) -> None:
        if found := THREAD.match(line):
            self._start_thread(numbers.integer(found["number"]) or 0, found["lwp"], found["name"] or "", number)
        elif found := _TID.match(line):
            self._start_thread(len(self._numbers) + 1, found["lwp"], "", number)
        elif found := (_PID.match(line) or _ATTACH.match(line)):
            self._start_process(number, numbers.integer(found["pid"]))
        elif found := _PY_BT_FULL.match(line):
            self._python(found, number)
        elif found := _FRAME.match(line):
            self._native(found, number)
        elif found := _PY_FRAME.match(line):
            self._python(found, number)

    def _start_process(self, line: int, pid: int | None = None) -> None:
        self.stacks.begin_process(line, pid)
        self._numbers = set()

    def _start_thread(self, number: int, lwp: str, name: str, line: int) -> None:
        if not self.stacks.processes or number in self._numbers:
            self._start_process(line)
        self._numbers.add(number)
        self._number, self._in_python = number, False
        dump = self.stacks.processes[-1].dump
        if number == 1 and dump.pid is None:  # the first thread of a process has the process's number
            dump.pid = numbers.integer(lwp)
        self.stacks.begin_thread(ThreadStack(name, lwp, (), line=line))

    def _native(self, found: re.Match[str], line: int) -> None:
        if self.stacks.thread is None or (found["number"].strip("0") == "" and self.stacks.has_frames):
            if self.stacks.thread is not None and self._in_python:
                return
            self._restart(line)
        self.stacks.add(native_frame(found["rest"], found["address"] or ""), line)

    def _restart(self, line: int) -> None:
        """Frames without a heading: a process with one thread, or the next of several files put together."""
        self._start_thread(self._number if self.stacks.thread is not None else 1, "", "", line)

    def _python(self, found: re.Match[str], line: int) -> None:
        if self.stacks.thread is None:
            self._restart(line)
        self._in_python = True
        self.stacks.add(Frame(found["function"], found["file"], numbers.integer(found["line"])), line)


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
