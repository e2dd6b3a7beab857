"""Lines that no table of messages knows and that tell of a failure in general words: kept for later reading."""

from __future__ import annotations

from dataclasses import replace

from unhang.evidence.items import LogEvent
from unhang.evidence.logs.lines.prefixes import Speaker, SpokenLine, is_cpp_error
from unhang.evidence.logs.lines.speakers import Spoken
from unhang.knowledge.failure_language import ANY_SITUATION, find_failure_statement, may_state_failure

MAX_FAILURES = 400
"""So many different ones are kept of a log: the first failure is what counts, and it is among the first."""
MAX_LINES_READ = 20_000
"""After so many different lines with words of failure that told of none, no more are looked at."""
TEXT_CHARS = 1000


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
