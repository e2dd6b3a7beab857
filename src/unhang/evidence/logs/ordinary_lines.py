"""Ordinary lines that are kept of a log: the last of everybody, those before the first trouble and those behind it, and
those that no table of messages knows and that tell of a failure in general words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter

from unhang.evidence.items import LastLine, LogEvent
from unhang.evidence.logs.lines.prefixes import Speaker, SpokenLine, is_cpp_error
from unhang.evidence.logs.lines.speakers import Spoken
from unhang.knowledge.failure_language import ANY_SITUATION, find_failure_statement, may_state_failure

CONTEXT_LINES = 160
"""So many are kept before the first trouble, and so many behind it."""
_TEXT_CHARS = 2000
_TROUBLE = frozenset(("timeout", "oom", "gpu-fault", "killed", "nccl-error", "async-error", "store-timeout", "aborted"))
"""What a message says that ends the story of how the job went."""
MAX_FAILURES = 400
"""So many different ones are kept of a log: the first failure is what counts, and it is among the first."""
MAX_LINES_READ = 20_000
"""After so many different lines with words of failure that told of none, no more are looked at."""
TEXT_CHARS = 1000


class ContextLineKeeper:
    """Give it the ordinary lines of one log in order."""

    def __init__(self) -> None:
        self._last: dict[tuple[Speaker, int | None], SpokenLine] = {}
        self._broke_off: dict[Speaker, int] = {}
        self._latest: deque[SpokenLine] = deque(maxlen=CONTEXT_LINES)
        self._before: tuple[SpokenLine, ...] | None = None

    def take(self, said: SpokenLine) -> None:
        """Keep a line."""
        said.text = said.text[:_TEXT_CHARS]
        self._last[said.speaker, said.rank] = said
        self._latest.append(said)

    def note_stack_line(self, said: SpokenLine) -> None:
        """Note a line of an exception or a stack."""
        self._broke_off[said.speaker] = said.number

    def message(self, says: str, *, benign: bool) -> None:
        """A known message stands in the log here."""
        if self._before is None and says in _TROUBLE and not benign:
            self._before = tuple(self._latest)
            self._latest.clear()

    def last_lines(self, item: Callable[[SpokenLine, bool], LastLine]) -> tuple[LastLine, ...]:
        """The last line of every rank, in the order of the lines; ``item`` makes it of what was said,
        and of whether a stack stands behind it."""
        newest: dict[int | None, LastLine] = {}
        for said in sorted(self._last.values(), key=attrgetter("number")):
            told = item(said, self._broke_off.get(said.speaker, 0) > said.number)
            newest.pop(told.rank, None)
            newest[told.rank] = told
        return tuple(newest.values())

    def lines(self) -> Iterator[SpokenLine]:
        """Those before the first trouble and behind it, in order."""
        yield from self._before or ()
        yield from self._latest


class UnrecognizedFailureKeeper:
    """Keeps each complaint of a speaker once: lines that differ in numbers alone are one."""

    def __init__(self) -> None:
        self.kept: list[Spoken[LogEvent]] = []
        """They are of no kind."""
        self._seen: set[tuple[Speaker, int | None, str]] = set()

    def take(self, said: SpokenLine, key: str, event: LogEvent) -> None:
        """Keep ``event`` of an ordinary line that tells of a failure; ``key`` is the same for lines that differ in
        numbers alone."""
        voice = (said.speaker, said.rank, key)
        if voice in self._seen or len(self.kept) >= MAX_FAILURES or len(self._seen) >= MAX_LINES_READ:
            return
        text = event.text[:TEXT_CHARS]
        error = is_cpp_error(text)
        if not error and not may_state_failure(text):
            return
        self._seen.add(voice)
        if error or find_failure_statement(text, ANY_SITUATION) is not None:
            self.kept.append((replace(event, text=text), said.speaker, said.told))
