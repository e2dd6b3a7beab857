"""Lines that no table of messages knows and that tell of a failure in general words: kept for later reading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.evidence.logs.lines.prefixes import Speaker, is_cpp_error
from unhang.evidence.logs.lines.speakers import SpeakerRanks
from unhang.findings import Source
from unhang.knowledge.failure_language import ANY_SITUATION, find_failure_statement, may_state_failure

MAX_FAILURES = 400
"""So many different ones are kept of a log: the first failure is what counts, and it is among the first."""
MAX_LINES_READ = 20_000
"""After so many different lines with words of failure that told of none, no more are looked at."""
TEXT_CHARS = 1000


@dataclass(slots=True)
class UnrecognizedFailure:
    """A line before its speaker's rank is known; ``rank`` is the one it names itself."""

    speaker: Speaker
    rank: int | None
    text: str
    line: int
    time_s: float | None
    attempt: int


class UnrecognizedFailureKeeper:
    """Keeps each complaint of a speaker once: lines that differ in numbers alone are one."""

    def __init__(self) -> None:
        self._kept: list[UnrecognizedFailure] = []
        self._seen: set[tuple[Speaker, int | None, str]] = set()

    def take(self, told: UnrecognizedFailure, key: str) -> None:
        """Keep an ordinary line that tells of a failure; ``key`` is the same for lines that differ in numbers alone."""
        voice = (told.speaker, told.rank, key)
        if voice in self._seen or len(self._kept) >= MAX_FAILURES or len(self._seen) >= MAX_LINES_READ:
            return
        told.text = text = told.text[:TEXT_CHARS]
        error = is_cpp_error(text)
        if not error and not may_state_failure(text):
            return
        self._seen.add(voice)
        if error or find_failure_statement(text, ANY_SITUATION) is not None:
            self._kept.append(told)

    def events(self, voices: SpeakerRanks, source: str, host: str | None) -> Iterator[LogEvent]:
        """All of them, now that ``voices`` knows who is which rank; they are of no kind."""
        for kept in self._kept:
            told = {} if kept.rank is None else {"rank": kept.rank}
            yield LogEvent(
                "",
                Source(source, kept.line),
                kept.text,
                voices.rank_of(kept.speaker, told),
                kept.time_s,
                attempt=kept.attempt,
                host=kept.speaker.host or host,
            )
