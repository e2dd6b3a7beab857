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
from dataclasses import dataclass, field, replace

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.stack_limits import MAX_LINE, FrameBudget, FrameKeeper
from unhang.findings import Source
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


@dataclass(slots=True)
class _Dump:
    line: int
    rank: int | None
    fatal: str = ""
    threads: list[ThreadStack] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _OpenThread:
    """The thread whose frames are being read."""

    thread_id: str
    name: str
    line: int
    keeper: FrameKeeper = field(default_factory=FrameKeeper)


def looks_like(text: str) -> bool:
    """True when ``text`` holds a thread heading as faulthandler writes it."""
    return THREAD.search(text) is not None


def read(text: str, *, source: str, rank: int | None, budget: FrameBudget) -> Iterator[StackDump]:
    """Every dump in ``text``: a timer with ``repeat=True`` and several crashes of one log give several.

    Lines that carry a launcher's prefix are kept apart by it, so that ranks that print at once stay whole.
    """
    streams: dict[str, _PrefixedStream] = {}
    order: list[_Dump] = []
    for number, line in enumerate(text.splitlines(), 1):
        prefix, body = _without_prefix(line[:MAX_LINE].rstrip())
        stream = streams.get(prefix)
        if stream is None:
            if "thread" not in body and "Thread" not in body and "Fatal" not in body and "Timeout" not in body:
                continue
            if len(streams) >= 100_000:
                budget.note("too many different line prefixes; the rest was left out", number)
                break
            stream = streams[prefix] = _PrefixedStream(prefix, rank, order)
        stream.feed(body, number, budget)
    for stream in streams.values():
        stream.finish()
    for dump in sorted(order, key=lambda item: item.line):
        if dump.threads:
            yield StackDump(
                Source(source, dump.line), dump.rank, None, tuple(dump.threads), "faulthandler", fatal=dump.fatal
            )


def _without_prefix(line: str) -> tuple[str, str]:
    found = _PREFIX_RANK.match(line)
    return (found.group().strip(), line[found.end() :]) if found else ("", line)


class _PrefixedStream:
    """The lines that share one prefix: one rank's own output."""

    def __init__(self, prefix: str, rank: int | None, order: list[_Dump]) -> None:
        found = _PREFIX_RANK.match(prefix)
        told = (found["rank"] or found["srun"]) if found else None
        self._rank = rank if rank is not None else (numbers.rank(told) if told is not None else None)
        self._order = order
        self._dump: _Dump | None = None
        self._open: _OpenThread | None = None
        self._fatal: tuple[int, str] | None = None
        self._in_c_stack = False
        self._current: int | None = None

    def feed(self, line: str, number: int, budget: FrameBudget) -> None:
        if _C_STACK.search(line):
            self._close()
            self._in_c_stack = True
        elif found := THREAD.search(line):
            self._start_thread(found, number)
        elif fatal := _FATAL.search(line):
            self._end_dump()
            self._fatal = (number, fatal["what"].strip())
        elif _TIMER.search(line):
            self._end_dump()
        elif self._in_c_stack:
            self._c_frame(line, number, budget)
        elif self._open is not None:
            self._frame(line, number, budget)

    def finish(self) -> None:
        self._end_dump()

    def _start_thread(self, found: re.Match[str], number: int) -> None:
        self._close()
        self._in_c_stack = False
        if self._dump is not None and found["id"] in self._dump.ids:
            self._end_dump()
        if self._dump is None:
            line, fatal = self._fatal or (number, "")
            self._dump = _Dump(line, self._rank, fatal)
            self._order.append(self._dump)
            self._fatal = None
        self._dump.ids.add(found["id"])
        if found["current"] == "Current thread":
            self._current = len(self._dump.threads)
        self._open = _OpenThread(found["id"], found["name"] or "", number)

    def _frame(self, line: str, number: int, budget: FrameBudget) -> None:
        assert self._open is not None
        found = _FRAME.match(line)
        if found:
            if budget.take(number):
                line_number = numbers.integer(found["line"])
                self._open.keeper.add(Frame(found["function"], found["file"], line_number))
        elif not _UNDERSTOOD.match(line):
            self._close()

    def _c_frame(self, line: str, number: int, budget: FrameBudget) -> None:
        found = _BINARY.match(line)
        if found is None:
            self._in_c_stack = not line.strip() or line.lstrip().startswith("<")
            return
        if self._dump is None or self._current is None or self._current >= len(self._dump.threads):
            return
        if budget.take(number):
            thread = self._dump.threads[self._current]
            natives = [frame for frame in thread.frames if frame.native]
            python = [frame for frame in thread.frames if not frame.native]
            symbol = found["symbol"] or found["address"] or "??"
            natives.append(Frame(symbol, found["file"], None, native=True))
            self._dump.threads[self._current] = replace(thread, frames=(*natives, *python))

    def _close(self) -> None:
        if self._open is not None and self._dump is not None:
            frames = self._open.keeper.frames()
            name = self._open.name or ("MainThread" if is_main_stack(frames) else "")
            fell = bool(self._dump.fatal) and self._current == len(self._dump.threads)
            self._dump.threads.append(
                ThreadStack(name, self._open.thread_id, frames, line=self._open.line, took_fatal_signal=fell)
            )
        self._open = None

    def _end_dump(self) -> None:
        self._close()
        self._dump, self._current, self._in_c_stack = None, None, False


def is_main_stack(frames: tuple[Frame, ...]) -> bool:
    """True when a stack starts at a module's first line, as only the first thread of a process does."""
    python = [frame for frame in frames if not frame.native]
    return bool(python) and python[-1].function in ("<module>", "_run_module_as_main")
