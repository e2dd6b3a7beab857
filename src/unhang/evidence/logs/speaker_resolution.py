"""What was kept of a log, as items: now that its end is reached it is known which speaker is which rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from unhang.evidence.items import LastLine, LogEnding, ProcessExit, Progress, PythonTraceback
from unhang.evidence.logs.content.endings import EndingReader, EndStatement, EndSubject
from unhang.evidence.logs.content.exits import ExitReader
from unhang.evidence.logs.content.tracebacks import RawTraceback
from unhang.evidence.logs.context_lines import ContextLine, ContextLineKeeper
from unhang.evidence.logs.lines.prefixes import Speaker
from unhang.evidence.logs.lines.progress import StepRun
from unhang.evidence.logs.lines.speakers import SpeakerRanks
from unhang.evidence.logs.lines.timestamps import TimestampReader
from unhang.findings import Source


@dataclass(frozen=True, slots=True)
class UnresolvedEnding:
    """What a line tells of an end, before its rank is known."""

    said: EndStatement
    speaker: Speaker
    spoken: int | None
    text: str
    line: int
    attempt: int
    since_line: int


@dataclass(frozen=True, slots=True)
class LogItemBuilder:
    """Makes items of one log's raw readings: with source, time and the rank of their speaker."""

    source: str
    host: str | None
    voices: SpeakerRanks
    clock: TimestampReader

    def traceback(self, raw: RawTraceback) -> PythonTraceback:
        """``raw`` with the rank and the time of its speaker."""
        speaker = raw.speaker
        assert isinstance(speaker, Speaker)
        return PythonTraceback(
            Source(self.source, raw.line),
            self.voices.rank_of(speaker, {}),
            self.clock.time_of(raw.dated),
            raw.exception,
            raw.message,
            tuple(reversed(raw.frames)),
            raw.thread,
            raw.attempt,
            speaker.host or self.host,
            raw.chained,
            raw.raised_line,
            raw.pid if raw.pid is not None else speaker.pid,
            raw.statement,
        )

    def exits(self, told: ExitReader, endings: EndingReader) -> Iterator[ProcessExit]:
        """Ends of processes. Local ranks are ranks where one launcher has the whole job; a scheduler's tasks are none
        where they are nodes, or where torchrun starts the ranks."""
        found = told.exits()
        pids = {raw.pid for raw in found if raw.local_rank is not None or raw.by_launcher} - {None}
        here = endings.holds_all(len(pids))
        for raw in found:
            rank = raw.rank if raw.rank is not None or not here else raw.local_rank
            if raw.task and (told.torchrun or self.voices.labels_are_nodes()):
                rank = None
            if rank is None and raw.pid is not None:
                rank = self.voices.process_rank(raw.pid, raw.host)
            yield ProcessExit(
                Source(self.source, raw.line),
                rank,
                raw.local_rank,
                raw.pid,
                raw.exit_code,
                raw.time_s,
                raw.host or self.host,
                raw.source_kind,
                raw.by_launcher,
                raw.attempt,
                raw.text,
            )

    def ending(self, heard: UnresolvedEnding) -> LogEnding:
        """How the job or a part of it says that it ended."""
        said = heard.said
        rank = self._rank(heard.speaker, heard.spoken)
        own = (rank,) if said.who is EndSubject.RANK and rank is not None else ()
        return LogEnding(
            Source(self.source, heard.line),
            heard.text,
            said.who.value,
            said.well,
            said.ranks or own,
            said.here,
            said.size,
            said.alone,
            said.name,
            said.words,
            heard.attempt,
            heard.since_line,
        )

    def progress(self, run: StepRun) -> Progress:
        """Steps that only grow."""
        speaker = run.speaker
        assert isinstance(speaker, Speaker)
        return Progress(
            Source(self.source, run.first_line),
            self._rank(speaker, run.rank),
            run.label,
            run.first_step,
            run.last_step,
            run.total,
            run.first_time_s,
            run.last_time_s,
            run.last_line,
            run.unit,
            tuple(run.recent),
            run.last_text,
            run.attempt,
            run.elapsed_s,
            tuple(run.loads),
            run.told > run.most_told > 0,
            tuple(run.printed),
        )

    def said(self, told: ContextLine) -> LastLine:
        """An ordinary line."""
        rank = self._rank(told.speaker, told.rank)
        return LastLine(Source(self.source, told.line), rank, told.text, self.clock.time_of(told.dated))

    def last_lines(self, story: ContextLineKeeper) -> tuple[LastLine, ...]:
        """The last line of every rank, in the order of the lines."""
        newest: dict[int | None, LastLine] = {}
        for told in story.last_of_everybody():
            said = replace(self.said(told), followed=story.is_followed(told))
            if said.rank not in newest or told.line > (newest[said.rank].source.line or 0):
                newest[said.rank] = said
        return tuple(sorted(newest.values(), key=lambda said: said.source.line or 0))

    def _rank(self, speaker: Speaker, spoken: int | None) -> int | None:
        return self.voices.rank_of(speaker, {} if spoken is None else {"rank": spoken})
