"""Read one log from front to back: recognised lines, tracebacks, exits, progress, last words of every rank.

A block of lines first goes through the literal filter. Small logs are then read line by line; of large ones only the
beginning, the end, and the surroundings of recognised lines are, and of each block its last lines (for progress).
"""

from __future__ import annotations

import io
import os
import re
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from unhang.evidence.items import LastLine, LogReading, ProcessExit, Progress, PythonTraceback
from unhang.evidence.logs.anchors import AnchorFilter
from unhang.evidence.logs.blocks import LINE_BYTES, Block, Blocks, decoded
from unhang.evidence.logs.events import EventKeeper, Heard
from unhang.evidence.logs.exits import TABLE_FIELDS, ExitReader
from unhang.evidence.logs.pastes import mend_paste
from unhang.evidence.logs.prefixes import NOBODY, PrefixReader, Speaker, origin_of
from unhang.evidence.logs.progress import ProgressReader, Run, Step, step_in, trainer_line
from unhang.evidence.logs.times import Clock, year_in
from unhang.evidence.logs.tracebacks import RawTraceback, TracebackReader
from unhang.evidence.logs.voices import Voices
from unhang.findings import Source, Unread
from unhang.knowledge.messages import MessageMatch, MessageRow, load_messages, match_rows

TEXT_CHARS = 2000
FIRST_BLOCKS, LAST_BLOCKS = 1, 4
"""So many blocks at either end are read line by line."""
_TAIL_BYTES = 1 << 14
"""So much at the end of every block in between is read line by line."""
PATTERN_CHARS = 8192
"""Patterns look at no more than this of a line, so that no line costs much."""
_OF_FLOOD = 32
_AFTER_HIT, _AFTER_TRACEBACK = 4, 160
"""So many lines behind a recognised line, or behind the head of a traceback, are read with it."""
_NO_WORDS = re.compile(r"^[\s=\-*#+|~^.]*$")
_STACK_LINE = re.compile(
    r'^\s*(?:frame #\d+:|#\d+ |File "|Exception raised from|terminate called|what\(\):|\^|~)'
    r"|^\S+ FAILED$|^Failures:$|^\s*<NO_OTHER_FAILURES>|^Root Cause \(|^\[\d+\]:$|^Last error:"
)


def read_log(
    stream: BinaryIO | Path | str,
    *,
    source: str,
    rank: int | None = None,
    attempt: int = 0,
    host: str | None = None,
    modified_s: float | None = None,
) -> LogReading:
    """Read a log of any size. ``rank``, ``attempt`` and ``host`` are what the file's name tells, if anything.

    ``modified_s`` dates lines without a year. Never raises for bad input: what could not be read is in ``unread``.
    """
    if isinstance(stream, str | Path):
        path = Path(stream)
        try:
            with path.open("rb") as opened:
                modified = os.fstat(opened.fileno()).st_mtime if modified_s is None else modified_s
                return _LogReader(source, rank, attempt, host, modified).read(opened)
        except OSError as error:
            return _nothing(source, rank, attempt, f"cannot be opened: {error.strerror or error}")
    return _LogReader(source, rank, attempt, host, modified_s).read(stream)


def looks_like_log(head: bytes) -> bool:
    """Whether the first bytes of a file read as lines of a program: known messages, prefixes, times or plain words."""
    block = next(iter(Blocks(io.BytesIO(head[:65_536]))), None)
    if block is None:
        return False
    text = decoded(block.data)
    if sum(1 for character in text if character < " " and character not in "\t\n\r\x1b\x07\x08") > len(text) // 50:
        return False
    if _untuned().fresh().places(block.data):
        return True
    lines = [line for line in text.splitlines() if line.strip()][:200]
    clock = Clock(year=2000)
    spoken = [line for line in lines if clock.time_of(line) is not None or step_in(line) is not None]
    return bool(lines) and len(spoken) * 5 >= len(lines)


def _nothing(source: str, rank: int | None, attempt: int, reason: str) -> LogReading:
    where = Source(source)
    return LogReading(where, rank, (), (), (), (), (), 0, (), attempt=attempt, unread=(Unread(where, reason, rank),))


@dataclass(slots=True)
class _Last:
    text: str
    line: int
    dated: str


@dataclass(slots=True)
class _Region:
    """Lines of a block to read one by one: from byte ``start`` to ``stop``."""

    start: int
    stop: int


@dataclass(slots=True)
class _Scanned:
    block: Block
    places: list[tuple[int, MessageRow | None]] = field(default_factory=list)


@cache
def _untuned() -> AnchorFilter[MessageRow | None]:
    """Finds literals with the row they belong to; those without a row start something that goes over many lines."""
    starts = (b"Traceback (most recent call last)", b"Exception in thread ", b"Root Cause (first observed failure)")
    rows = ((anchor.encode("ascii"), row) for row in load_messages() for anchor in row.anchors)
    return AnchorFilter((*rows, *((start, None) for start in starts)))


class _LogReader:
    def __init__(self, source: str, rank: int | None, attempt: int, host: str | None, modified_s: float | None) -> None:
        self.source = source
        self.rank = rank
        self.attempt = self.first_attempt = attempt
        self.host = host
        self.modified_s = modified_s
        self.clock = Clock(year=time.gmtime(modified_s if modified_s is not None else time.time()).tm_year)
        self.prefixes = PrefixReader("")
        self._first_lines: tuple[int, ...] = ()
        self.filter = _untuned().fresh()
        self.voices = Voices(rank)
        self.tracebacks = TracebackReader()
        self.tracebacks.attempt = attempt
        self.exits = ExitReader(self.clock)
        self.progress = ProgressReader()
        self.events = EventKeeper()
        self._last: dict[tuple[Speaker, int | None], _Last] = {}
        self._trainer: dict[Speaker, int] = {}
        self._kernel = self._launcher = 0
        self._first_time_s: float | None = None
        self._latest: deque[str] = deque(maxlen=200)

    # ---- blocks

    def read(self, stream: BinaryIO) -> LogReading:
        blocks = Blocks(stream)
        waiting: deque[_Scanned] = deque()
        for count, raw in enumerate(blocks):
            block = self._mended(raw) if count == 0 else raw
            if count == 0:
                self._look_ahead(block.data)
            if count < FIRST_BLOCKS:
                self._all_of(self._scan(block))
                continue
            waiting.append(self._scan(block))
            if len(waiting) > LAST_BLOCKS:
                self._parts_of(waiting.popleft())
        for scanned in waiting:
            self._all_of(scanned)
        self.tracebacks.gap()
        return self._reading(blocks)

    def _mended(self, block: Block) -> Block:
        """The first block with the lines of a paste made whole again."""
        mended = mend_paste(block.data)
        if mended is None:
            return block
        self._first_lines = mended.first_lines
        return Block(mended.data, block.first_line)

    def _look_ahead(self, data: bytes) -> None:
        sample = decoded(data[: 1 << 18].rsplit(b"\n", 1)[0] if len(data) > 1 << 18 else data)
        sample = sample.replace("\r\n", "\n").replace("\r", "\n")
        self.prefixes = PrefixReader(sample)
        year = year_in(sample)
        if year is not None:
            self.clock.year = year
        else:
            self.clock = Clock(year=self.clock.year, latest_s=self.modified_s or time.time())
            self.exits = ExitReader(self.clock)

    def _scan(self, block: Block) -> _Scanned:
        return _Scanned(block, self.filter.places(block.data))

    def _without_floods(self, scanned: _Scanned) -> None:
        """Of kinds of which thousands were seen, only the first few of a block stay."""
        counts: dict[str, int] = {}
        kept: list[tuple[int, MessageRow | None]] = []
        for at, row in scanned.places:
            if row is not None:
                count = counts[row.id] = counts.get(row.id, 0) + 1
                if count > _OF_FLOOD and self.events.is_flood(row):
                    self.events.leave_out(row)
                    continue
            kept.append((at, row))
        scanned.places = kept

    def _all_of(self, scanned: _Scanned) -> None:
        self._without_floods(scanned)
        self._lines(scanned, [_Region(0, len(scanned.block.data))])

    def _parts_of(self, scanned: _Scanned) -> None:
        self._without_floods(scanned)
        data = scanned.block.data
        regions: list[_Region] = []
        for at, row in scanned.places:
            if regions and at < regions[-1].stop and row is not None:
                continue
            start = data.rfind(b"\n", 0, at) + 1
            stop = at
            for _ in range(_AFTER_TRACEBACK if row is None else _AFTER_HIT):
                stop = data.find(b"\n", stop) + 1
                if stop <= 0:
                    stop = len(data)
                    break
            if regions and start <= regions[-1].stop:
                regions[-1].stop = max(regions[-1].stop, stop)
            else:
                regions.append(_Region(start, stop))
        tail = data.find(b"\n", max(0, len(data) - _TAIL_BYTES)) + 1
        if 0 < tail < len(data):
            if regions and tail <= regions[-1].stop:
                regions[-1].stop = len(data)
            else:
                regions.append(_Region(tail, len(data)))
        self._lines(scanned, regions)

    def _lines(self, scanned: _Scanned, regions: Iterable[_Region]) -> None:
        data, places = scanned.block.data, scanned.places
        line, counted = scanned.block.first_line, 0
        next_place = 0
        for region in regions:
            if region.start > counted:
                self.tracebacks.gap()
                line += data.count(b"\n", counted, region.start)
            at = region.start
            for raw in data[region.start : region.stop].split(b"\n"):
                end = at + len(raw)
                while next_place < len(places) and places[next_place][0] < at:
                    next_place += 1
                rows: list[MessageRow] = []
                while next_place < len(places) and places[next_place][0] < end:
                    row = places[next_place][1]
                    if row is not None and row not in rows:
                        rows.append(row)
                    next_place += 1
                if raw:
                    self._physical_line(raw, line, rows)
                at = end + 1
                line += 1
            line -= 1
            counted = region.stop

    def _physical_line(self, raw: bytes, line: int, rows: list[MessageRow]) -> None:
        if 0 < line <= len(self._first_lines):
            line = self._first_lines[line - 1]
        if raw.endswith(b"\r"):
            raw = raw[:-1]
        if b"\r" not in raw:
            self._line(decoded(raw[:LINE_BYTES]), line, rows)
            return
        parts = [part for part in raw.split(b"\r") if part.strip()]
        if len(parts) > 64:
            anchors = [anchor.encode("ascii") for row in rows for anchor in row.anchors]
            between = [part for part in parts[16:-48] if any(anchor in part for anchor in anchors)]
            parts = [*parts[:16], *between, *parts[-48:]]
        for part in parts:
            text = decoded(part[:LINE_BYTES])
            self._line(text, line, [row for row in rows if any(anchor in text for anchor in row.anchors)])

    # ---- lines

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
        if not told and not in_traceback and not in_table:
            self._ordinary(text, line, speaker, dated)

    def _ordinary(self, text: str, line: int, speaker: Speaker, dated: str) -> None:
        step = self._trainer_step(speaker) if trainer_line(text) else step_in(text)
        rank = _spoken_rank(text)
        if step is not None:
            self.progress.take(speaker, rank, step, line, self.clock.time_of(dated), text[:300], self.attempt)
        if not _NO_WORDS.match(text) and not _STACK_LINE.match(text):
            self._last[speaker, rank] = _Last(text[:TEXT_CHARS], line, dated)

    def _trainer_step(self, speaker: Speaker) -> Step:
        """Lines of the transformers Trainer carry no step: they are counted."""
        count = self._trainer[speaker] = self._trainer.get(speaker, 0) + 1
        return Step("trainer log", count, None, "log")

    def _events(self, text: str, line: int, rows: list[MessageRow], speaker: Speaker, time_s: float | None) -> bool:
        """Keep what the line tells; False when it only looked like a message."""
        matches = match_rows(text, rows)
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
        self._note(row, values, told)
        self.exits.take_event(
            row.id, values, line=line, time_s=time_s, host=speaker.host, attempt=self.attempt, text=text[:300]
        )
        self.events.add(Heard(match, line, text[:TEXT_CHARS], speaker, told, time_s, self.attempt))

    def _note(self, row: MessageRow, values: Any, told: dict[str, Any]) -> None:
        if row.id in ("n.init_start", "n.init_complete") and "nccl_pid" in told:
            self.voices.learn_process(told["nccl_host"], told["nccl_pid"], values["comm_rank"], values["comm_size"])
        elif row.id == "te.restart":
            self.attempt += 1
        elif row.id == "te.restart_count":
            self.attempt = max(self.attempt, int(values["attempt"]))
        self.tracebacks.attempt = self.attempt
        if row.id.startswith("k."):
            self._kernel += 1
        elif row.id.startswith(("te.", "srun.", "slurm.", "pals.", "mpi.", "ds.", "rdzv.")):
            self._launcher += 1

    # ---- the result

    def _reading(self, blocks: Blocks) -> LogReading:
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
            blocks.lines,
            tuple(sorted(ranks)),
            self._first_time_s,
            self._last_time_s(),
            self.first_attempt,
            self._role(blocks.lines),
            folded,
            tuple(self._unread(blocks)),
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
        )

    def _last_lines(self) -> tuple[LastLine, ...]:
        newest: dict[int | None, _Last] = {}
        for (speaker, spoken), last in self._last.items():
            rank = self.voices.rank_of(speaker, {} if spoken is None else {"rank": spoken})
            if rank not in newest or last.line > newest[rank].line:
                newest[rank] = last
        return tuple(
            LastLine(Source(self.source, last.line), rank, last.text, self.clock.time_of(last.dated))
            for rank, last in sorted(newest.items(), key=lambda item: item[1].line)
        )

    def _role(self, lines: int) -> str:
        if self._kernel and self._kernel * 3 >= max(1, len(self.events)) and not self.voices.heard:
            return "kernel"
        if self.rank is None and self._launcher and not self.voices.heard and self._launcher * 2 >= len(self.events):
            return "launcher" if lines else ""
        return ""

    def _unread(self, blocks: Blocks) -> Iterable[Unread]:
        where = Source(self.source)
        if blocks.trouble:
            yield Unread(where, f"reading stopped after line {blocks.lines}: {blocks.trouble}", self.rank)
        if blocks.cut_lines:
            yield Unread(
                where,
                f"{blocks.cut_lines} lines longer than {LINE_BYTES // 1024} KiB were read only in part",
                self.rank,
            )


_SPOKEN_RANK = re.compile(
    r"^\W{0,3}(?:global[_ ])?[Rr]ank[:= _-]{0,2}(\d{1,5})\b(?! ?(?:of|/|group))"
    r"|[\s,(\[](?:global[_ ])?[Rr]ank ?[:=] ?(\d{1,5})\b|^(?:GPU|gpu) ?(\d{1,3}):|\[(?:GPU|gpu|rank|Rank) ?(\d{1,5})\]"
)


def _shortened(whole: str, rows: list[MessageRow]) -> str:
    """A very long line: its beginning, or its beginning and the surroundings of the first message in it."""
    places = [whole.find(anchor) for row in rows for anchor in row.anchors]
    at = min((place for place in places if place >= 0), default=0)
    if at < PATTERN_CHARS // 2:
        return whole[:PATTERN_CHARS]
    return f"{whole[:256]} … {whole[at - 512 : at + PATTERN_CHARS // 2]}"


def _spoken_rank(text: str) -> int | None:
    """A rank that an ordinary line names itself by (``train, rank: 9, epoch …``)."""
    if "ank" not in text and "GPU" not in text:
        return None
    found = _SPOKEN_RANK.search(text[:200])
    return int(next(group for group in found.groups() if group)) if found else None


def _rank_told(told: dict[str, Any]) -> int | None:
    """The global rank a line names outright: its own prefix, or its rank in the default group."""
    in_default_group = "group" in told and str(told.get("group_description", "")).startswith("default")
    rank = told.get("rank", told.get("group_rank") if in_default_group else None)
    return int(rank) if rank is not None else None
