"""Limits that every stack reader keeps, so that no file can fill the memory or the time."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from unhang.evidence.items import Frame
from unhang.findings import Source, Unread

MAX_BYTES = 32 * 1024 * 1024
"""Bytes read of one file; a real dump of 1,000 threads is below 1 MB."""
MAX_LINE = 4_000
"""Characters read of one line (demangled C++ names are long)."""
MAX_FRAMES = 100_000
"""Frames kept of one file."""
INNERMOST_KEPT, OUTERMOST_KEPT = 1_500, 500
"""Frames kept of one thread: a runaway recursion keeps both of its ends."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def decode(data: bytes) -> str:
    """``data`` as text without colours and NUL bytes; bytes that are no text become replacement characters."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", errors="replace")
    else:
        text = data.decode("utf-8-sig", errors="replace")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return text.replace("\0", "") if "\0" in text else text


@dataclass(slots=True)
class FrameBudget:
    """Counts frames over a whole file and remembers what had to be left out."""

    source: str
    rank: int | None
    left: int = MAX_FRAMES
    notes: list[Unread] = field(default_factory=list)
    _told: bool = False

    def take(self, line: int) -> bool:
        """True while another frame may be kept; notes the first line that may not."""
        if self.left > 0:
            self.left -= 1
            return True
        if not self._told:
            self._told = True
            self.note(f"more than {MAX_FRAMES:,} stack frames; the rest was left out", line)
        return False

    def note(self, reason: str, line: int | None = None) -> None:
        """Remember something that was not read."""
        self.notes.append(Unread(Source(self.source, line), reason, self.rank))


class FrameKeeper:
    """Collects the frames of one thread, innermost first, and keeps both ends of a very deep one."""

    __slots__ = ("_first", "_last", "_seen")

    def __init__(self) -> None:
        self._first: list[Frame] = []
        self._last: deque[Frame] = deque(maxlen=OUTERMOST_KEPT)
        self._seen = 0

    def add(self, frame: Frame) -> None:
        """Add the next frame outwards."""
        self._seen += 1
        if len(self._first) < INNERMOST_KEPT:
            self._first.append(frame)
        else:
            self._last.append(frame)

    def frames(self) -> tuple[Frame, ...]:
        """The kept frames, innermost first."""
        return (*self._first, *self._last)
