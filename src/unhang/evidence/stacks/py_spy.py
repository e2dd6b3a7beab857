"""py-spy: the text of ``py-spy dump`` (also ``--native``, ``--locals``, ``--subprocesses``) and ``py-spy dump --json``.

Text, one process or several in a file::

    Process 7709: python -u train.py
    Python v3.11.7 (/usr/bin/python3.11)

    Thread 7709 (active+gil): "MainThread"
        select (selectors.py:415)
        poll (libc.so.6)                      <- native: a library instead of a line

JSON: a list of threads, each with ``pid``, ``thread_name``, ``active``, ``owns_gil`` and ``frames``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from unhang.evidence.file_names import rank_from_name
from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.collected_stacks import StackCollector
from unhang.evidence.stacks.stack_limits import MAX_LINE, FrameBudget, FrameKeeper
from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

PROCESS = late_pattern(r"^Process (?P<pid>\d+): ?(?P<command>.*)$")
THREAD = late_pattern(
    r"^Thread (?P<id>0x[0-9A-Fa-f]+|\d+)(?: ?/ ?(?P<os>0x[0-9A-Fa-f]+|\d+))? "
    r"\((?P<state>active|idle)(?P<gil>\+gil)?\)(?:: \"(?P<name>.*)\")?\s*$"
)
PROMPT = late_pattern(r"py-spy dump\b(?=.*?(?: --pid| -p)[ =]?(?P<pid>\d+))")
"""The command, as a paste of several processes shows it before each."""
_FILE = late_pattern(r"^==> (?P<name>.+) <==$")
"""The name of each file, as ``head`` and ``tail`` print it over its lines."""
_COMPLAINT = late_pattern(r"^(?:Error|Permission Denied|Failed to \w+).*$")
_COMPILED = frozenset(
    {"c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "cu", "cuh", "inc", "tcc", "rs", "pyx", "s", "S", "go"}
)
_JOINED = late_pattern(r":\d+\)\s+\S+ \(")
"""The end of a frame and the beginning of another in one line."""
_NO_NUMBER = late_pattern(r"\.py:(?!\d+$)[^()/]*$")
"""A line of Python's without its number."""
_FRAME_ENDS = late_pattern(r"^\S[^()]*:\d+\)$")
_INTERPRETER_SHIM = late_pattern(r"^<(?:shim|interpreter trampoline)>$")
_SPACES = " \t\r\n,"


def looks_like_text(text: str) -> bool:
    """True when ``text`` holds a process or thread line as py-spy writes them."""
    return any(PROCESS.match(line) or THREAD.match(line) for line in text.splitlines()[:400])


def looks_like_json(text: str) -> bool:
    """True when ``text`` starts as ``py-spy dump --json`` does."""
    start = text.lstrip()[:4000]
    return start.startswith("[") and '"frames"' in start and ('"owns_gil"' in start or '"thread_name"' in start)


def read_text(text: str, *, source: str, rank: int | None, budget: FrameBudget) -> Iterator[StackDump]:
    """Every process of a ``py-spy dump``; a file may hold several."""
    reader = _TextReader(StackCollector("py-spy", source, rank, budget))
    for number, line in enumerate(text.splitlines(), 1):
        reader.feed(line[:MAX_LINE].rstrip(), number)
    yield from reader.stacks.dumps()  # without commands that were typed and showed nothing


class _TextReader:
    def __init__(self, stacks: StackCollector) -> None:
        self.stacks = stacks
        self._rank = stacks.rank
        self._torn = False

    def feed(self, line: str, number: int) -> None:
        stacks = self.stacks
        if self._begins_process(line, number):
            return
        if found := THREAD.match(line):
            stacks.end_thread()
            if not stacks.processes or self._is_of_another(found):
                stacks.begin_process(number)
            stacks.begin_thread(_thread(found, number))
        elif stacks.thread is None:
            if _COMPLAINT.match(line):
                stacks.budget.note(f"py-spy could not read the process: {line[:200]}", number)
        elif (frame := read_frame(line)) is not None and not _JOINED.search(line):
            stacks.add(frame, number)
        elif not self._torn and not line.isupper() and _is_torn(line):  # headings of `ps` are upper case
            self._torn = True
            stacks.budget.note("a line of the stack is damaged", number)

    def _begins_process(self, line: str, number: int) -> bool:
        if file := _FILE.match(line):
            self.stacks.rank = rank_from_name(file["name"]) if self._rank is None else self._rank
            self.stacks.begin_process(number)
            return True
        head = PROCESS.match(line)
        found = head or PROMPT.search(line)
        if found is None:
            return False
        self.stacks.end_thread()
        if head is not None and self.stacks.processes and not self.stacks.processes[-1].threads:
            self.stacks.processes.pop()  # the command that was typed for it
        command = head["command"].strip() if head is not None else ""
        self.stacks.begin_process(number, numbers.integer(found["pid"]), command=command)
        return True

    def _is_of_another(self, header: re.Match[str]) -> bool:
        """A process has one main thread: with a second one begins a process whose head was not pasted. A tool that
        folds equal stacks prints the heads of several one after the other."""
        threads = self.stacks.processes[-1].threads
        return header["name"] == "MainThread" and any(t.name == "MainThread" and t.frames for t in threads)


def read_frame(line: str) -> Frame | None:
    """One frame line of the text, or None (locals are indented deeper, headings less)."""
    if not line.startswith("    ") or line[4:5] in ("", " ") or not line.endswith(")"):
        return None
    call = line[4:]
    split = opening_of_last_parenthesis(call)
    if split is None:
        return None
    function, place = call[:split].rstrip(), call[split + 1 : -1]
    if not function or _INTERPRETER_SHIM.match(function):
        return None
    file, colon, number = place.rpartition(":")
    if not colon or not number.isdigit():
        return None if _NO_NUMBER.search(place) else Frame(function, place, None, native=True)
    if file.rpartition(".")[2] in _COMPILED:
        return Frame(function, file, None, native=True)
    return Frame(function, file, numbers.integer(number) or None)


def _is_torn(line: str) -> bool:
    """A part of a frame, or several: it is not closed, or it is the end of one, or it holds more."""
    if _JOINED.search(line) is not None or _NO_NUMBER.search(line.rstrip(")")) is not None:
        return True
    if line.startswith("    ") and line[4:5] not in ("", " "):
        return "(" not in line or not line.endswith(")")
    return _FRAME_ENDS.search(line) is not None


def opening_of_last_parenthesis(call: str) -> int | None:
    """Index of the ``(`` that belongs to the last ``)``: file names may hold parentheses of their own."""
    depth = 0
    for index in range(len(call) - 1, -1, -1):
        if call[index] == ")":
            depth += 1
        elif call[index] == "(":
            depth -= 1
            if depth == 0:
                return index
    return None


def _thread(header: re.Match[str], line: int) -> ThreadStack:
    active = header["state"] == "active"
    # The text tells the holder of the interpreter lock only among active threads; one that sleeps in native code while
    # holding it is just "(idle)". The JSON form tells it always.
    holds_gil = (header["gil"] is not None) if active else None
    return ThreadStack(
        name=header["name"] or "",
        thread_id=header["os"] or header["id"],
        frames=(),
        active=active,
        holds_gil=holds_gil,
        line=line,
    )


# ---------------------------------------------------------------------------------------------------
# JSON


def read_json(text: str, *, source: str, rank: int | None, budget: FrameBudget) -> Iterator[StackDump]:
    """Every process of a ``py-spy dump --json``; a torn list gives the threads before the tear."""
    processes: dict[int | None, list[ThreadStack]] = {}
    commands: dict[int | None, str] = {}
    for position, entry in _objects(text, budget):
        thread = _json_thread(entry, position, budget)
        if thread is None:
            budget.note(f"the thread at character {position} has no list of frames")
            continue
        pid = _whole(entry.get("pid"))
        processes.setdefault(pid, []).append(thread)
        if command := _command(entry.get("process_info")):
            commands[pid] = command
    for pid, threads in processes.items():
        yield StackDump(Source(source), rank, pid, tuple(threads), "py-spy-json", command=commands.get(pid, ""))


def _objects(text: str, budget: FrameBudget) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of one list, or of several lists one after the other, with their positions."""
    decoder = json.JSONDecoder()
    position, inside = 0, False
    while position < len(text):
        character = text[position]
        if character in _SPACES:
            position += 1
        elif character == "[" or character == "]":
            inside = character == "["
            position += 1
        else:
            try:
                value, end = decoder.raw_decode(text, position)
            except (ValueError, RecursionError):
                budget.note(f"the JSON is torn or damaged at character {position}")
                return
            if isinstance(value, dict):
                yield position, value
            position = end
    if inside:
        budget.note("the JSON ends before its list is closed; threads may be missing")


def _json_thread(entry: dict[str, Any], position: int, budget: FrameBudget) -> ThreadStack | None:
    frames = entry.get("frames")
    if not isinstance(frames, list):
        return None
    keeper = FrameKeeper()
    for item in frames:
        frame = _json_frame(item)
        if frame is not None and budget.take(position):
            keeper.add(frame)
    active, gil = entry.get("active"), entry.get("owns_gil")
    thread_id = entry.get("os_thread_id") or entry.get("thread_id")
    return ThreadStack(
        name=_words(entry.get("thread_name")),
        thread_id=str(thread_id) if isinstance(thread_id, int) else "",
        frames=keeper.frames(),
        active=active if isinstance(active, bool) else None,
        holds_gil=gil if isinstance(gil, bool) else None,
    )


def _json_frame(item: object) -> Frame | None:
    if not isinstance(item, dict):
        return None
    function, file = _words(item.get("name")), _words(item.get("filename"))
    line, module = _whole(item.get("line")), _words(item.get("module"))
    if not function or _INTERPRETER_SHIM.match(function):
        return None
    if module or file.rpartition(".")[2] in _COMPILED or (not line and not file.endswith(".py")):
        return Frame(function, file or module, None, native=True)
    return Frame(function, file, line or None)


def _command(info: object) -> str:
    return _words(info.get("command_line")) if isinstance(info, dict) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _words(value: object) -> str:
    return value[:MAX_LINE] if isinstance(value, str) else ""
