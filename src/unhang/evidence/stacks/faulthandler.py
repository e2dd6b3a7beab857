"""faulthandler: what Python itself prints on a crash, a timer (``dump_traceback_later``) or a signal.

Example::

    Fatal Python error: Segmentation fault

    Thread 0x00007f1c (most recent call first):
      File "/usr/lib/python3.11/threading.py", line 327 in wait
    Current thread 0x00007f2e [python] (most recent call first):     <- names since Python 3.14
      File "train.py", line 19 in main
    Current thread's C stack trace (most recent call first):         <- since Python 3.14
      Binary file "/lib/libc.so.6", at +0x42520 [0x7f1c]

It often stands in the middle of a log, with a launcher's prefix before every line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.collected_stacks import StackCollector
from unhang.evidence.stacks.stack_limits import MAX_LINE, FrameBudget
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

THREAD = late_pattern(
    r"(?P<current>Current thread|Thread) (?P<id>0x[0-9A-Fa-f]+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
_C_STACK = late_pattern(r"Current thread's C stack trace \(most recent call first\):")
_FATAL = late_pattern(r"Fatal Python error: (?P<what>.+)")
_TIMER = late_pattern(r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!")
_FRAME = late_pattern(r'^\s*File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')
_BINARY = late_pattern(
    r'^\s*Binary file "(?P<file>[^"]*)"(?:, at (?P<symbol>[^+\s]*)\S*)?'
    r"(?: \[(?P<address>0x[0-9a-f]+)\])?"
)
_PREFIX_RANK = late_pattern(r"^\s*(?:\[(?:rank|default)?(?P<rank>\d+)\](?:<std(?:out|err)>)?:? ?|(?P<srun>\d+): ?)")
_UNDERSTOOD = late_pattern(r"^\s*(?:<no Python frame>|<.*>|\.\.\.|Garbage-collecting|Extension modules:.*)?\s*$")


def looks_like(text: str) -> bool:
    """True when ``text`` holds a thread heading as faulthandler writes it."""
    return THREAD.search(text) is not None


def read(text: str, *, source: str, rank: int | None, budget: FrameBudget) -> Iterator[StackDump]:
    """Every dump in ``text``: a timer with ``repeat=True`` and several crashes of one log give several.

    Lines that carry a launcher's prefix are kept apart by it, so that ranks that print at once stay whole.
    """
    streams: dict[str, _PrefixedStream] = {}
    for number, line in enumerate(text.splitlines(), 1):
        prefix, body = _without_prefix(line[:MAX_LINE].rstrip())
        stream = streams.get(prefix)
        if stream is None:
            if "thread" not in body and "Thread" not in body and "Fatal" not in body and "Timeout" not in body:
                continue
            if len(streams) >= 100_000:
                budget.note("too many different line prefixes; the rest was left out", number)
                break
            stream = streams[prefix] = _PrefixedStream(prefix, source, rank, budget)
        stream.feed(body, number)
    dumps = [dump for stream in streams.values() for dump in stream.stacks.dumps()]
    for dump in sorted(dumps, key=lambda dump: dump.source.line or 0):
        dump.threads = tuple(map(_named, dump.threads))
        yield dump


def _without_prefix(line: str) -> tuple[str, str]:
    found = _PREFIX_RANK.match(line)
    return (found.group().strip(), line[found.end() :]) if found else ("", line)


class _PrefixedStream:
    """The lines that share one prefix: one rank's own output."""

    def __init__(self, prefix: str, source: str, rank: int | None, budget: FrameBudget) -> None:
        found = _PREFIX_RANK.match(prefix)
        told = (found["rank"] or found["srun"]) if found else None
        if rank is None and told is not None:
            rank = numbers.rank(told)
        self.stacks = StackCollector("faulthandler", source, rank, budget)
        self._ids: set[str] | None = None
        """Of the threads of the dump; None between two dumps."""
        self._fatal: tuple[int, str] | None = None
        self._in_c_stack = False
        self._current: int | None = None

    def feed(self, line: str, number: int) -> None:
        if _C_STACK.search(line):
            self.stacks.end_thread()
            self._in_c_stack = True
        elif found := THREAD.search(line):
            self._start_thread(found, number)
        elif fatal := _FATAL.search(line):
            self._end_dump()
            self._fatal = (number, fatal["what"].strip())
        elif _TIMER.search(line):
            self._end_dump()
        elif self._in_c_stack:
            self._c_frame(line, number)
        elif self.stacks.thread is not None:
            self._frame(line, number)

    def _start_thread(self, found: re.Match[str], number: int) -> None:
        self._in_c_stack = False
        if self._ids is not None and found["id"] in self._ids:
            self._end_dump()
        if self._ids is None:
            line, fatal = self._fatal or (number, "")
            self.stacks.begin_process(line, fatal=fatal)
            self._ids, self._fatal = set(), None
        self._ids.add(found["id"])
        self.stacks.end_thread()
        process, current = self.stacks.processes[-1], found["current"] == "Current thread"
        if current:
            self._current = len(process.threads)
        fell = current and bool(process.dump.fatal)
        self.stacks.begin_thread(ThreadStack(found["name"] or "", found["id"], (), line=number, took_fatal_signal=fell))

    def _frame(self, line: str, number: int) -> None:
        found = _FRAME.match(line)
        if found:
            self.stacks.add(Frame(found["function"], found["file"], numbers.integer(found["line"])), number)
        elif not _UNDERSTOOD.match(line):
            self.stacks.end_thread()

    def _c_frame(self, line: str, number: int) -> None:
        found = _BINARY.match(line)
        if found is None:
            self._in_c_stack = not line.strip() or line.lstrip().startswith("<")
            return
        if self._current is not None and self.stacks.budget.take(number):
            threads = self.stacks.processes[-1].threads
            thread = threads[self._current]
            natives = [frame for frame in thread.frames if frame.native]
            python = [frame for frame in thread.frames if not frame.native]
            symbol = found["symbol"] or found["address"] or "??"
            natives.append(Frame(symbol, found["file"], None, native=True))
            threads[self._current] = replace(thread, frames=(*natives, *python))

    def _end_dump(self) -> None:
        self.stacks.end_thread()
        self._ids, self._current, self._in_c_stack = None, None, False


def _named(thread: ThreadStack) -> ThreadStack:
    return replace(thread, name="MainThread") if not thread.name and is_main_stack(thread.frames) else thread


def is_main_stack(frames: tuple[Frame, ...]) -> bool:
    """True when a stack starts at a module's first line, as only the first thread of a process does."""
    python = [frame for frame in frames if not frame.native]
    return bool(python) and python[-1].function in ("<module>", "_run_module_as_main")
