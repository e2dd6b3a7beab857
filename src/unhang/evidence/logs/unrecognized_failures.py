"""Lines that no table of messages knows and that tell of a failure in general words: kept for later reading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.evidence.logs.lines.prefixes import Speaker, is_error_of_torch
from unhang.evidence.logs.lines.speakers import Voices
from unhang.findings import Source
from unhang.knowledge.failure_language import ANY, sounds_bad, statement_in

COMPLAINTS = 400
"""So many different ones are kept of a log: the first failure is what counts, and it is among the first."""
LOOKED_AT = 20_000
"""After so many different lines with words of failure that told of none, no more are looked at."""
TEXT_CHARS = 1000


@dataclass(frozen=True, slots=True)
class _Complaint:
    speaker: Speaker
    rank: int | None
    text: str
    line: int
    time_s: float | None
    attempt: int


class ComplaintKeeper:
    """Keeps each complaint of a speaker once: lines that differ in numbers alone are one."""

    def __init__(self) -> None:
        self._kept: list[_Complaint] = []
        self._seen: set[tuple[Speaker, int | None, str]] = set()

    def wants(self, speaker: Speaker, rank: int | None, key: str, text: str) -> bool:
        """Whether an ordinary line is to be kept; ``key`` is the same for lines that differ in numbers alone."""
        voice = (speaker, rank, key)
        if voice in self._seen or len(self._kept) >= COMPLAINTS or len(self._seen) >= LOOKED_AT:
            return False
        error = is_error_of_torch(text[:TEXT_CHARS])
        if not error and not sounds_bad(text[:TEXT_CHARS]):
            return False
        self._seen.add(voice)
        return error or statement_in(text[:TEXT_CHARS], ANY) is not None

    def keep(
        self, speaker: Speaker, rank: int | None, text: str, line: int, time_s: float | None, attempt: int
    ) -> None:
        """Keep a line that is wanted."""
        self._kept.append(_Complaint(speaker, rank, text[:TEXT_CHARS], line, time_s, attempt))

    def events(self, voices: Voices, source: str, host: str | None) -> Iterator[LogEvent]:
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
