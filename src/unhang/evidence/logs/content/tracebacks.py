"""Python tracebacks in logs: per speaker, chained, in threads, in exception groups, drawn by rich."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from unhang.evidence.items import Frame, PythonTraceback
from unhang.evidence.logs.lines.prefixes import UNKNOWN_SPEAKER, Speaker, SpokenLine
from unhang.evidence.logs.lines.speakers import SpeakerRanks
from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.knowledge.libraries import is_unhang_in_process
from unhang.late_pattern import late_pattern
from unhang.wire.guard_statement import MARK, RAISED_AS, decode_statement

_FRAME = late_pattern(
    r'^[\s|+]*File "(?P<file>[^"]{1,1024})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,300}))?\s*$'
)
_RICH_FRAME = late_pattern(
    r"^\s*[│|]\s+(?P<file>\S[^│]{0,500}?):(?P<line>\d{1,9}) in (?P<function>\S[^│]{0,200}?)\s*[│|]?\s*$"
)
_EXCEPTION = late_pattern(
    r"^(?!(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTE|TRACE)\b)"
    r"(?P<type>(?:[A-Za-z_]\w*\.)*(?:[A-Z_]\w*|[a-z]\w*(?<=\.)\w*)|(?:[a-z_]\w*\.)+\w+)(?:: ?(?P<message>.*))?$",
    re.DOTALL,
)
_LOGGER = late_pattern(r"^(?:ERROR|CRITICAL|WARNING) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./]{1,80}\.py:\d{1,6}\] ")
"""vLLM's, before the exception too."""
_THREAD = late_pattern(r"^Exception in thread (?P<name>.+?):?\s*$")
_IGNORED = "Exception ignored in"
_CHAIN = late_pattern(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_RAISED_ELSEWHERE = late_pattern(r"^(?:[\w.]+\.)?RayTaskError\(\w+\): .*\(pid=(?P<pid>\d{1,10})\b")
"""What another process raised, and its frames behind it: those in front are of who asked for its result
(ray/exceptions.py, RayTaskError)."""
_GROUP_EDGE = late_pattern(r"^[\s|]*(?:\+[-+ ]*)?(?:\||\+-+)?\s?")
_ENDS_MESSAGE = late_pattern(
    r"^(?:\[|20\d\d[-/]|Traceback |frame #|Exception raised from|[EWIF]\d{3,4} |[\w.-]+:\d+:\d+ \[|={10}|srun: "
    r"|\s*$|terminate called|INFO|WARN|ERROR|DEBUG|\+ )"
)

MAX_FRAMES = 256
MESSAGE_LINES, MESSAGE_CHARS = 12, 2000
MAX_ALIKE = 2048
"""How many with the same exception and innermost frames are kept."""
MAX_EQUAL, MAX_EQUAL_UNNAMED, MAX_TRACEBACKS = 3, 1024, 4000
"""How many equal ones of a speaker are kept, of nobody in particular (they may be as many ranks), and of all."""
STATEMENT_LINES = 40
"""A guard's statement is one line; a narrow terminal broke it into so many at most."""


LAUNCHER = "torch/distributed/launcher/"
"""Part of the path of torchrun's own code: no rank runs it, not even in a log of one rank."""


@dataclass(slots=True)
class RawTraceback:
    """A traceback as read; ``frames`` outermost first."""

    speaker: Speaker
    line: int
    dated: str
    """The part of its head line that may hold a time."""
    thread: str = ""
    indent: int = 0
    rich: bool = False
    grouped: bool = False
    exception: str = ""
    message: str = ""
    frames: list[Frame] = field(default_factory=list)
    chained: bool = False
    unrelated_lines: int = 0
    message_lines: int = 0
    last_line: int = 0
    raised_line: int | None = None
    attempt: int = 0
    pid: int | None = None
    statement: str = ""
    ignored: bool = False
    """The interpreter said so (``__del__``, ``atexit``): it ends nothing."""

    def add(self, frame: Frame) -> None:
        """Append a frame; very deep stacks keep their two ends."""
        self.frames.append(frame)
        if len(self.frames) > MAX_FRAMES:
            del self.frames[MAX_FRAMES // 2]

    def item(
        self, source: str, voices: SpeakerRanks, time_of: Callable[[str], float | None], host: str | None
    ) -> PythonTraceback:
        """As it is kept, in a log of ``host``."""
        return PythonTraceback(
            Source(source, self.line),
            None if any(LAUNCHER in frame.file for frame in self.frames) else voices.rank_of(self.speaker, {}),
            time_of(self.dated),
            self.exception,
            self.message,
            tuple(reversed(self.frames)),
            self.thread,
            self.attempt,
            self.speaker.host or host,
            self.chained,
            self.raised_line,
            self.pid if self.pid is not None else self.speaker.pid,
            self.statement,
            self.speaker.program or "",
        )


class TracebackReader:
    """Follows the lines of every speaker. ``take`` says whether a line belongs to a traceback."""

    def __init__(self) -> None:
        self.done: list[RawTraceback] = []
        self.dropped = 0
        """How many were left out because enough equal ones of the same speaker were kept."""
        self.attempt = 0
        self.familiar: list[tuple[bytes, bytes]] = []
        """Innermost frame and exception, as written, of tracebacks of which enough were kept."""
        self._shapes: dict[Hashable, int] = {}
        self._equal: dict[Hashable, int] = {}
        self._open: dict[Speaker, RawTraceback] = {}
        self._closing: dict[Speaker, RawTraceback] = {}
        self._threads: dict[Speaker, str] = {}
        self._ignored: set[Speaker] = set()
        self.in_ignored = False
        """The line taken last is of one that the interpreter ignored."""
        self._guards: dict[Speaker, RawTraceback] = {}
        """The last error of a guard, until its statement comes: there may be long stacks in between."""
        self._broken: RawTraceback | None = None
        """Whose statement goes on in the next line."""

    @property
    def open(self) -> bool:
        """Whether the exception of a traceback has not come yet, for any speaker."""
        return bool(self._open)

    @property
    def busy(self) -> bool:
        """Whether a traceback is open for any speaker."""
        return bool(self._open or self._closing)

    def take(self, said: SpokenLine) -> bool:
        """Read a line. True when it is part of a traceback."""
        speaker, text, line = said.speaker, said.text, said.number
        self.in_ignored = False
        if "Traceback (most recent call last)" in text:
            self._begin(said)
            return True
        if text.startswith("Exception in thread ") and (found := _THREAD.match(text)) is not None:
            self._threads[speaker] = found["name"][:200]
            return True
        if text.startswith(_IGNORED):
            self._ignored.add(speaker)
            return True
        if (MARK in text or self._broken is not None) and self._takes_statement(speaker, text, line):
            return True
        current = self._open.get(speaker)
        if current is not None:
            self.in_ignored = current.ignored
            return self._continue(current, _LOGGER.sub("", text, count=1), line)
        if self._closing and (ended := self._closing.get(speaker)) is not None:
            return self._after(ended, text, line)
        return False

    def _begin(self, said: SpokenLine) -> None:
        speaker, text = said.speaker, said.text
        previous = self._open.pop(speaker, None)
        if previous is not None:
            self._finish(previous)
        self._closing.pop(speaker, None)
        before = text.split("Traceback (most recent", 1)[0]
        self._open[speaker] = RawTraceback(
            speaker,
            said.number,
            said.dated,
            thread=self._threads.pop(speaker, ""),
            indent=len(before) - len(before.lstrip()) if not before.strip() else 0,
            rich="─" in text or "━" in text,
            grouped="Exception Group" in before or before.strip().startswith("|"),
            last_line=said.number,
            attempt=self.attempt,
            ignored=speaker in self._ignored,
        )
        self._ignored.discard(speaker)

    def _continue(self, current: RawTraceback, text: str, line: int) -> bool:
        found = _FRAME.match(text) or (_RICH_FRAME.match(text) if current.rich else None)
        if found is not None:
            function = (found["function"] or "<module>").strip()
            if not is_unhang_in_process(found["file"]):
                current.add(Frame(function, found["file"], numbers.integer(found["line"])))
            current.unrelated_lines = 0
            return True
        bare = _GROUP_EDGE.sub("", text) if current.grouped else text
        stripped = bare.strip()
        if not stripped or stripped[0] in "╭╰│":
            return current.rich or not stripped
        indent = len(bare) - len(bare.lstrip())
        if indent > current.indent and not current.rich:
            if current.frames and (named := _EXCEPTION.match(stripped)) and _sounds_like_error(named["type"]):
                return self._end(current, named, line)  # a paste that lost or gained indentation
            return bool(current.frames)
        if "RayTaskError(" in stripped and (raised := _RAISED_ELSEWHERE.match(stripped)) is not None:
            current.frames.clear()
            current.pid = int(raised["pid"])
            return True
        named = _EXCEPTION.match(stripped)
        if named is not None and (current.frames or _sounds_like_error(named["type"])):
            return self._end(current, named, line)
        current.unrelated_lines += 1
        if current.unrelated_lines > 12:
            del self._open[current.speaker]
            self._finish(current)
        return False

    def _end(self, current: RawTraceback, named: re.Match[str], line: int) -> bool:
        current.exception = named["type"]
        current.message = (named["message"] or "")[:MESSAGE_CHARS]
        current.last_line = current.raised_line = line
        del self._open[current.speaker]
        if not current.ignored:
            self._closing[current.speaker] = current
        if current.exception in RAISED_AS:
            self._guards[current.speaker] = current
        self._keep(current)
        return True

    def _after(self, ended: RawTraceback, text: str, line: int) -> bool:
        """Lines behind the exception: its message goes on, or another traceback is chained."""
        stripped = text.strip()
        if _CHAIN.match(stripped):
            ended.chained = True
            return True
        if not stripped and line - ended.last_line <= 2:
            return True
        if (
            line - ended.last_line > 1
            or ended.message_lines >= MESSAGE_LINES
            or "%|" in text
            or _ENDS_MESSAGE.match(text)
        ):
            del self._closing[ended.speaker]
            return False
        ended.last_line = line
        ended.message_lines += 1
        if len(ended.message) < MESSAGE_CHARS:
            ended.message = f"{ended.message}\n{stripped}"[:MESSAGE_CHARS]
        return True

    def _takes_statement(self, speaker: Speaker, text: str, line: int) -> bool:
        """The last line of a guard's message, and what a terminal broke off it, which nobody's prefix precedes."""
        if text.lstrip().startswith(MARK) and (raised := self._guards.pop(speaker, None)) is not None:
            raised.statement = text
            raised.message_lines = MESSAGE_LINES
        else:
            raised, self._broken = self._broken, None
            if raised is None or line != raised.last_line + 1 or speaker not in (raised.speaker, UNKNOWN_SPEAKER):
                return False
            raised.statement += f"\n{text}"
        raised.last_line = line
        torn = decode_statement(raised.statement) is None and raised.statement.count("\n") < STATEMENT_LINES
        self._broken = raised if torn else None
        return True

    def _finish(self, torn: RawTraceback) -> None:
        if torn.frames:
            self._keep(torn)

    def _keep(self, ended: RawTraceback) -> None:
        if ended.ignored:
            return
        key = (ended.speaker, ended.attempt, ended.exception, ended.message[:200], tuple(ended.frames))
        if len(self._equal) > MAX_TRACEBACKS:
            self._equal.clear()
        seen = self._equal[key] = self._equal.get(key, 0) + 1
        shape = (ended.exception, tuple(ended.frames[-3:]), ended.attempt)
        if len(self._shapes) > MAX_TRACEBACKS:
            self._shapes.clear()
        alike = self._shapes[shape] = self._shapes.get(shape, 0) + 1
        if (
            seen > (MAX_EQUAL_UNNAMED if ended.speaker == UNKNOWN_SPEAKER else MAX_EQUAL)
            or alike > MAX_ALIKE
            or len(self.done) >= MAX_TRACEBACKS
        ):
            self.dropped += 1
            if alike == MAX_ALIKE + 1 and ended.frames and ended.exception and len(self.familiar) < 16:
                last = ended.frames[-1]
                self.familiar.append(
                    (
                        f'File "{last.file}", line {last.line}, in {last.function}\n'.encode(),
                        f"{ended.exception}:".encode(),
                    )
                )
            return
        self.done.append(ended)

    def gap(self) -> None:
        """Lines are left out here, or the log ends: what is open stays torn."""
        for torn in self._open.values():
            self._finish(torn)
        self._open.clear()
        self._closing.clear()
        self._threads.clear()
        self._guards.clear()
        self._broken = None


def _sounds_like_error(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return last.endswith(
        ("Error", "Exception", "Interrupt", "Exit", "Timeout", "Failure", "Group", "Warning", "timeout")
    )
