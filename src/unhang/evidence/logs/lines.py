"""The lines of one log, one after the other: what each tells goes to its keeper; then all of it together."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from unhang.evidence.items import LastLine, LogEnding, LogReading, ProcessExit, Progress, PythonTraceback
from unhang.evidence.logs.blocks import LINE_BYTES, Blocks, decoded
from unhang.evidence.logs.complaints import ComplaintKeeper
from unhang.evidence.logs.endings import KEPT, EndingReader, Said, Who, numbered_rank
from unhang.evidence.logs.events import EventKeeper, Heard
from unhang.evidence.logs.exits import TABLE_FIELDS, ExitReader
from unhang.evidence.logs.prefixes import NOBODY, PrefixReader, Speaker, kernel_host, origin_of
from unhang.evidence.logs.progress import ProgressReader, Run, Step, step_in, trainer_line
from unhang.evidence.logs.times import Clock, year_in
from unhang.evidence.logs.tracebacks import RawTraceback, TracebackReader
from unhang.evidence.logs.voices import Voices
from unhang.findings import Source, Unread
from unhang.knowledge import numbers
from unhang.knowledge.messages import MessageMatch, MessageRow, match_rows
from unhang.late_pattern import late_pattern

TEXT_CHARS = 2000
MOST_ATTEMPTS = 1_000_000
FAILED_NAMED = 3
PATTERN_CHARS = 8192
"""Patterns look at no more than this of a line, so that no line costs much."""
_BEHIND_A_BAR = late_pattern(
    r"(?<=\])(?=\[(?:rank|[A-Za-z_]{1,40})\d{1,6}\]:|Traceback \(most recent call last\)|\[?[EWIF] ?\d{3,4} \d\d:\d\d:)"
)
_BAR_END = late_pattern(r"\[[\d:]{4,16}<[^\[\]]{0,200}\]")
_PARTS = 64
_Part = TypeVar("_Part", str, bytes)
STORY_LINES = 160
"""So many ordinary lines are kept before the first trouble, and so many behind it."""
_TROUBLE = frozenset(("timeout", "oom", "gpu-fault", "killed", "nccl-error", "async-error", "store-timeout", "aborted"))
"""What a message says that ends the story of how the job went."""
_NO_WORDS = late_pattern(r"^[\s=\-*#+|~^.]*$")
_STACK_LINE = late_pattern(
    r'^\s*(?:frame #\d+:|#\d+ |File "|Exception raised from|terminate called|what\(\):|\^|~)'
    r"|^\S+ FAILED$|^Failures:$|^\s*<NO_OTHER_FAILURES>|^Root Cause \(|^\[\d+\]:$|^Last error:"
)


@dataclass(slots=True)
class _Last:
    text: str
    line: int
    dated: str


@dataclass(frozen=True, slots=True)
class _Ending:
    said: Said
    speaker: Speaker
    spoken: int | None
    text: str
    line: int
    attempt: int


class LineReader:
    """Give ``look_ahead`` the beginning of a log, ``take`` its lines in order, then ask for the ``reading``."""

    def __init__(self, source: str, rank: int | None, attempt: int, host: str | None, modified_s: float | None) -> None:
        self.source = source
        self.rank = rank
        self.attempt = self.first_attempt = attempt
        self.host = host
        self.modified_s = modified_s
        self.clock = Clock(year=time.gmtime(modified_s if modified_s is not None else time.time()).tm_year)
        self.prefixes = PrefixReader("")
        self.voices = Voices(rank)
        self.tracebacks = TracebackReader()
        self.tracebacks.attempt = attempt
        self.exits = ExitReader(self.clock)
        self.progress = ProgressReader()
        self.events = EventKeeper()
        self.complaints = ComplaintKeeper()
        self.endings = EndingReader()
        self._endings: deque[_Ending] = deque(maxlen=KEPT)
        self._last: dict[tuple[Speaker, int | None], _Last] = {}
        self._said: deque[tuple[Speaker, int | None, _Last]] = deque(maxlen=STORY_LINES)
        self._said_before: tuple[tuple[Speaker, int | None, _Last], ...] | None = None
        self._trainer: dict[Speaker, int] = {}
        self._kernel = self._launcher = 0
        self._first_time_s: float | None = None
        self._latest: deque[str] = deque(maxlen=200)
        self._failed = 0
        self._failures: list[Unread] = []

    def look_ahead(self, data: bytes) -> None:
        """Learn the prefixes and the year of the log from its first block."""
        sample = decoded(data[: 1 << 18].rsplit(b"\n", 1)[0] if len(data) > 1 << 18 else data)
        sample = sample.replace("\r\n", "\n").replace("\r", "\n")
        self.prefixes = PrefixReader(sample)
        year = year_in(sample)
        if year is not None:
            self.clock.year = year
        else:
            self.clock = Clock(year=self.clock.year, latest_s=self.modified_s or time.time())
            self.exits = ExitReader(self.clock)

    def take(self, raw: bytes, line: int, rows: list[MessageRow]) -> None:
        """Read a line, which may hold carriage returns. ``rows`` are the messages of which a literal stands in it."""
        try:
            self._take(raw, line, rows)
        except Exception as error:  # noqa: BLE001 - one line that we fail on must not cost the others
            self.failed(error, line)

    def failed(self, error: Exception, line: int) -> None:
        """Something in or behind ``line`` could not be read."""
        self._failed += 1
        if self._failed <= FAILED_NAMED:
            self._failures.append(Unread.after(error, Source(self.source, line), self.rank))

    def _take(self, raw: bytes, line: int, rows: list[MessageRow]) -> None:
        if raw.endswith(b"\r"):
            raw = raw[:-1]
        if b"\r" not in raw:
            self._said_at_once(decoded(raw[:LINE_BYTES]), line, rows)
            return
        parts = [part for part in raw.split(b"\r") if part.strip()]
        anchors = [anchor.encode("ascii") for row in rows for anchor in row.anchors]
        for part in _ends_of(parts, lambda between: any(anchor in between for anchor in anchors)):
            text = decoded(part[:LINE_BYTES])
            self._said_at_once(text, line, [row for row in rows if any(anchor in text for anchor in row.anchors)])

    # ---- lines

    def _said_at_once(self, whole: str, line: int, rows: list[MessageRow]) -> None:
        """A progress bar ends without a new line: what is printed next stands behind it."""
        places = _behind_bars(whole) if "%|" in whole else []
        if not places:
            self._line(whole, line, rows)
            return
        parts = [whole[start:stop] for start, stop in itertools.pairwise((0, *places, len(whole)))]
        anchors = [anchor for row in rows for anchor in row.anchors]
        for text in _ends_of(parts, lambda between: any(anchor in between for anchor in anchors)):
            self._line(text, line, [row for row in rows if any(anchor in text for anchor in row.anchors)])

    def _line(self, whole: str, line: int, rows: list[MessageRow]) -> None:
        if len(whole) > PATTERN_CHARS:
            whole = _shortened(whole, rows)
        spoken = self.prefixes.read(whole)
        text = spoken.text
        if not text.strip():
            if self.tracebacks.busy:
                self.tracebacks.take(spoken.speaker, text, line, "")
            return
        dated = spoken.dated[:160]
        if self._first_time_s is None:
            self._first_time_s = self.clock.time_of(dated)
        self._latest.append(dated)
        speaker = spoken.speaker
        if speaker is not NOBODY:
            self.voices.learn(speaker, speaker.rank)
        in_traceback = self.tracebacks.take(speaker, text, line, dated)
        in_table = (
            not in_traceback
            and text.lstrip().startswith(TABLE_FIELDS)
            and self.exits.take_line(text, line, self.attempt)
        )
        # A literal of a message may stand in an ordinary line too.
        told = bool(rows) and self._events(text, line, rows, speaker, self.clock.time_of(dated))
        if in_traceback or in_table:
            return
        if told and "NCCL" not in text and any(row.says == "setting" for row in rows):
            self._start_or_end(text, line, speaker)
        elif not told:
            self._ordinary(text, line, speaker, dated)

    def _ordinary(self, text: str, line: int, speaker: Speaker, dated: str) -> None:
        step = self._trainer_step(speaker) if trainer_line(text) else step_in(text)
        rank = _spoken_rank(text)
        if step is None or "$ " in text or text.startswith("+ "):
            self._start_or_end(text, line, speaker)
        if step is not None:
            self.progress.take(speaker, rank, step, line, self.clock.time_of(dated), text[:300], self.attempt)
        else:
            self.complaints.take(speaker, rank, text, line, self.clock.time_of(dated), self.attempt)
        if not _NO_WORDS.match(text) and not _STACK_LINE.match(text):
            last = self._last[speaker, rank] = _Last(text[:TEXT_CHARS], line, dated)
            self._said.append((speaker, rank, last))

    def _start_or_end(self, text: str, line: int, speaker: Speaker) -> None:
        for said in self.endings.take(text, line):
            self._endings.append(_Ending(said, speaker, _spoken_rank(text), text[:300], line, self.attempt))

    def _trainer_step(self, speaker: Speaker) -> Step:
        """Lines of the transformers Trainer carry no step: they are counted."""
        count = self._trainer[speaker] = self._trainer.get(speaker, 0) + 1
        return Step("trainer log", count, None, "log")

    def _events(self, text: str, line: int, rows: list[MessageRow], speaker: Speaker, time_s: float | None) -> bool:
        """Keep what the line tells; False when it only looked like a message."""
        matches = match_rows(text, rows)
        for row in rows:
            if not any(match.row is row for match in matches):
                self.events.told_nothing(row)
        if not matches:
            return False
        told = origin_of(text)
        self.voices.learn(speaker, _rank_told(told))
        for match in matches:
            self._event(match, text, line, speaker, told, time_s)
        return True

    def _event(
        self, match: MessageMatch, text: str, line: int, speaker: Speaker, told: dict[str, Any], time_s: float | None
    ) -> None:
        row, values = match.row, match.values
        if self._said_before is None and row.says in _TROUBLE and not row.benign:
            self._said_before = tuple(self._said)
            self._said.clear()
        if row.id.startswith("k.") and speaker.host is None:
            speaker = replace(speaker, host=kernel_host(text))
        self._note(row, values, told)
        self.exits.take_event(
            row.id, values, line=line, time_s=time_s, host=speaker.host, attempt=self.attempt, text=text[:300]
        )
        self.events.add(Heard(match, line, text[:TEXT_CHARS], speaker, told, time_s, self.attempt))

    def _note(self, row: MessageRow, values: Any, told: dict[str, Any]) -> None:
        if row.id in ("n.init_start", "n.init_complete") and "nccl_pid" in told:
            self._learn_process(told, values)
        elif row.id == "te.restart":
            self.attempt += 1
        elif row.id == "te.restart_count":
            self.attempt = max(self.attempt, min(values.get("attempt", 0), MOST_ATTEMPTS))
        self.tracebacks.attempt = self.attempt
        if row.id.startswith("k."):
            self._kernel += 1
        elif row.id.startswith(("te.", "srun.", "slurm.", "pals.", "mpi.", "ds.", "rdzv.")):
            self._launcher += 1

    def _learn_process(self, told: dict[str, Any], values: Any) -> None:
        if "comm_rank" in values and "comm_size" in values:
            self.voices.learn_process(told["nccl_host"], told["nccl_pid"], values["comm_rank"], values["comm_size"])

    # ---- the result

    def reading(self, blocks: Blocks, lines: int) -> LogReading:
        """Everything the lines told, now that it is known who is which rank."""
        events = self.events.log_events(self.voices, self.source, self.host)
        tracebacks = self._tracebacks()
        runs = self.progress.runs()
        last_lines = self._last_lines()
        progress = tuple(self._progress(run) for run in runs)
        folded = self.events.folded
        others = (("progress", self.progress), ("exit", self.exits), ("traceback", self.tracebacks))
        for label, dropped in ((label, reader.dropped) for label, reader in others):
            if dropped:
                folded[label] = dropped
        ranks = {
            item.rank for group in (events, tracebacks, progress, last_lines) for item in group if item.rank is not None
        } | self.voices.heard
        return LogReading(
            Source(self.source),
            self.rank,
            events,
            tracebacks,
            tuple(self._process_exits()),
            progress,
            last_lines,
            lines,
            tuple(sorted(ranks)),
            self._first_time_s,
            self._last_time_s(),
            self.first_attempt,
            self._role(lines),
            folded,
            tuple(self._unread(blocks, lines)),
            tuple(self._spoken(*said) for said in (*(self._said_before or ()), *self._said)),
            tuple(self.complaints.events(self.voices, self.source, self.host)),
            tuple(map(self._ending, self._endings)),
            tuple(sorted(self.endings.sizes)),
            self.endings.started_line,
        )

    def _last_time_s(self) -> float | None:
        times = (self.clock.time_of(dated) for dated in reversed(self._latest))
        return next((time_s for time_s in times if time_s is not None), self._first_time_s)

    def _tracebacks(self) -> tuple[PythonTraceback, ...]:
        return tuple(self._traceback(raw) for raw in sorted(self.tracebacks.done, key=lambda item: item.line))

    def _traceback(self, raw: RawTraceback) -> PythonTraceback:
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
        )

    def _process_exits(self) -> Iterable[ProcessExit]:
        for raw in self.exits.exits():
            rank = raw.rank
            if raw.task and self.exits.torchrun:
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
                raw.told_by,
                raw.by_launcher,
                raw.attempt,
                raw.text,
            )

    def _ending(self, heard: _Ending) -> LogEnding:
        said = heard.said
        rank = self.voices.rank_of(heard.speaker, {} if heard.spoken is None else {"rank": heard.spoken})
        own = (rank,) if said.who is Who.RANK and rank is not None else ()
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
        )

    def _progress(self, run: Run) -> Progress:
        speaker = run.speaker
        assert isinstance(speaker, Speaker)
        rank = self.voices.rank_of(speaker, {} if run.rank is None else {"rank": run.rank})
        return Progress(
            Source(self.source, run.first_line),
            rank,
            run.label,
            run.first_step,
            run.last_step,
            run.total,
            run.first_time_s,
            run.last_time_s,
            run.last_line,
            run.unit,
            run.per_step_s,
            tuple(run.recent),
            run.last_text,
            run.attempt,
            run.elapsed_s,
            tuple(run.loads),
        )

    def _last_lines(self) -> tuple[LastLine, ...]:
        newest: dict[int | None, LastLine] = {}
        for (speaker, rank), last in self._last.items():
            said = self._spoken(speaker, rank, last)
            if said.rank not in newest or last.line > (newest[said.rank].source.line or 0):
                newest[said.rank] = said
        return tuple(sorted(newest.values(), key=lambda said: said.source.line or 0))

    def _spoken(self, speaker: Speaker, rank: int | None, last: _Last) -> LastLine:
        rank = self.voices.rank_of(speaker, {} if rank is None else {"rank": rank})
        return LastLine(Source(self.source, last.line), rank, last.text, self.clock.time_of(last.dated))

    def _role(self, lines: int) -> str:
        if self._kernel and self._kernel * 3 >= max(1, len(self.events)) and not self.voices.heard:
            return "kernel"
        if self.rank is None and self._launcher and not self.voices.heard and self._launcher * 2 >= len(self.events):
            return "launcher" if lines else ""
        return ""

    def _unread(self, blocks: Blocks, lines: int) -> Iterable[Unread]:
        where = Source(self.source)
        yield from self._failures
        if self._failed > FAILED_NAMED:
            more = self._failed - FAILED_NAMED
            yield Unread(where, f"unhang failed on {more} more lines of it", self.rank, failed=True)
        if blocks.trouble:
            yield Unread(where, f"reading stopped after line {lines}: {blocks.trouble}", self.rank)
        if blocks.cut_lines:
            yield Unread(
                where,
                f"{blocks.cut_lines} lines longer than {LINE_BYTES // 1024} KiB were read only in part",
                self.rank,
            )


_SPOKEN_RANK = late_pattern(
    r"^\W{0,3}(?:global[_ ])?[Rr]ank[:= _-]{0,2}(\d{1,5})\b(?! ?(?:of|/|group))"
    r"|[\s,(\[](?:global[_ ])?[Rr]ank ?[:=] ?(\d{1,5})\b|^(?:GPU|gpu) ?(\d{1,3}):"
    r"|\[(?:GPU|gpu|rank|Rank|RANK)[ :=]{0,2}(\d{1,5})\]"
)


def _behind_bars(whole: str) -> list[int]:
    """Where the next begins: what another process says, or the next state of a bar whose carriage return was lost."""
    first = whole.find("%|")
    places = {behind.start()} if (behind := _BEHIND_A_BAR.search(whole, first)) is not None else set()
    places |= {end.end() for end in _BAR_END.finditer(whole, 0, whole.rfind("%|"))}
    return sorted(places)


def _ends_of(parts: list[_Part], says: Callable[[_Part], bool]) -> list[_Part]:
    """``parts`` of one line; of very many the first and the last, and those in between that say something."""
    if len(parts) <= _PARTS:
        return parts
    return parts[:16] + [part for part in parts[16:-48] if says(part)] + parts[-48:]


def _shortened(whole: str, rows: list[MessageRow]) -> str:
    """A very long line: its beginning, or its beginning and the surroundings of the first message in it."""
    places = [whole.find(anchor) for row in rows for anchor in row.anchors]
    at = min((place for place in places if place >= 0), default=0)
    if at < PATTERN_CHARS // 2:
        return whole[:PATTERN_CHARS]
    return f"{whole[:256]} … {whole[at - 512 : at + PATTERN_CHARS // 2]}"


def _spoken_rank(text: str) -> int | None:
    """A rank that an ordinary line names itself by (``train, rank: 9, epoch …``)."""
    if (rank := numbered_rank(text)) is not None or ("ank" not in text and "GPU" not in text and "RANK" not in text):
        return rank
    found = _SPOKEN_RANK.search(text[:200])
    return numbers.rank(next(group for group in found.groups() if group)) if found else None


def _rank_told(told: dict[str, Any]) -> int | None:
    """The global rank a line names outright: its own prefix, or its rank in the default group."""
    in_default_group = "group" in told and str(told.get("group_description", "")).startswith("default")
    rank = told.get("rank", told.get("group_rank") if in_default_group else None)
    return int(rank) if rank is not None else None
