"""The lines of one log, one after the other: what each tells goes to its keeper; then all of it together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from unhang.evidence.items import LastLine, LogEnding, LogEvent, LogReading
from unhang.evidence.logs.blocks import LINE_BYTES, Blocks, decoded
from unhang.evidence.logs.content.endings import MAX_ENDINGS, TRAINER_SUMMARY, EndingReader, numbered_rank
from unhang.evidence.logs.content.exits import TABLE_FIELDS, ExitReader
from unhang.evidence.logs.content.tracebacks import TracebackReader
from unhang.evidence.logs.events import EventKeeper, values_told
from unhang.evidence.logs.line_shapes import LineShapes
from unhang.evidence.logs.lines.line_parts import (
    first_and_last_parts,
    literals_of,
    rows_matching,
    searchable_part,
    split_where_run_together,
)
from unhang.evidence.logs.lines.prefixes import (
    UNKNOWN_SPEAKER,
    PrefixReader,
    Speaker,
    SpokenLine,
    kernel_host,
    origin_fields,
)
from unhang.evidence.logs.lines.progress import LogStep, find_step, find_step_time, is_trainer_line
from unhang.evidence.logs.lines.speakers import SpeakerRanks, Spoken
from unhang.evidence.logs.lines.timestamps import TimestampReader, year_in
from unhang.evidence.logs.ordinary_lines import ContextLineKeeper, UnrecognizedFailureKeeper
from unhang.evidence.logs.step_runs import ProgressReader
from unhang.findings import Source, Unread
from unhang.knowledge import numbers
from unhang.knowledge.messages import MessageMatch, MessageRow, match_rows
from unhang.late_pattern import late_pattern

MAX_ATTEMPTS = 1_000_000
MAX_FAILURES_NAMED = 3
_TEXT_CHARS = 2000
_WHOSE = (":actor_name:", ":task_name:")
"""What Ray writes into the file of a worker as it becomes one (ray/_private/ray_constants.py)."""
_OF_RAY = late_pattern(r"(?:^|/)worker-[0-9a-f]+-[0-9a-f]+-(?P<pid>\d{1,10})\.(?:out|err)$")
_ECHOED = late_pattern(r"(?:\^C)+(?=\S)")
_HEAD = 160
"""What a terminal shows of the keys stands in front of what the processes then say, behind whatever dates the line."""


class LineReader:
    """Give ``look_ahead`` the beginning of a log, ``take`` its lines in order, then ask for the ``reading``."""

    def __init__(self, source: str, rank: int | None, attempt: int, host: str | None, modified_s: float | None) -> None:
        self.source = source
        self.rank = rank
        self.attempt = self.first_attempt = attempt
        self.host = host
        self.modified_s = modified_s
        self.clock = TimestampReader(year=time.gmtime(modified_s if modified_s is not None else time.time()).tm_year)
        self.prefixes = PrefixReader("")
        self.endings = EndingReader(source)
        self.voices = SpeakerRanks(rank, self.endings.sizes)
        self.tracebacks = TracebackReader()
        self.tracebacks.attempt = attempt
        self.exits = ExitReader(source, self.clock)
        self.progress = ProgressReader(source)
        self.events = EventKeeper()
        self.unrecognized_failures = UnrecognizedFailureKeeper()
        self.story = ContextLineKeeper()
        self._shapes = LineShapes()
        self._endings: deque[Spoken[LogEnding]] = deque(maxlen=MAX_ENDINGS)
        self._trainer: dict[Speaker, int] = {}
        self._kernel = self._launcher = 0
        found = _OF_RAY.search(source) if "worker-" in source else None
        self._whose = Speaker(pid=numbers.integer(found["pid"])) if found is not None else UNKNOWN_SPEAKER
        self._first_time_s: float | None = None
        self._latest: deque[str] = deque(maxlen=200)
        self._failed = 0
        self._failures: list[Unread] = []

    def look_ahead(self, data: bytes) -> None:
        """Learn the prefixes and the year of the log from its first block."""
        sample = decoded(data[: 1 << 18].rsplit(b"\n", 1)[0] if len(data) > 1 << 18 else data)
        self.prefixes = PrefixReader(sample)
        year = year_in(sample)
        if year is not None:
            self.clock.year, self.clock.has_year = year, True
        else:
            self.clock = TimestampReader(year=self.clock.year, latest_s=self.modified_s or time.time())
            self.exits.clock = self.clock

    def take(self, raw: bytes, line: int, rows: list[MessageRow]) -> None:
        """Read a line, which may hold carriage returns. ``rows`` are the messages of which a literal stands in it."""
        try:
            self._take(raw, line, rows)
        except Exception as error:  # noqa: BLE001 - one line that we fail on must not cost the others
            self.failed(error, line)

    def failed(self, error: Exception, line: int) -> None:
        """Something in or behind ``line`` could not be read."""
        self._failed += 1
        if self._failed <= MAX_FAILURES_NAMED:
            self._failures.append(Unread.after(error, Source(self.source, line), self.rank))

    def _take(self, raw: bytes, line: int, rows: list[MessageRow]) -> None:
        if raw.endswith(b"\r"):
            raw = raw[:-1]
        if b"\r" not in raw:
            self._split_where_run_together(decoded(raw[:LINE_BYTES]), line, rows)
            return
        parts = [part for part in raw.split(b"\r") if part.strip()]
        anchors = [anchor.encode("ascii") for anchor in literals_of(rows)]
        for part in first_and_last_parts(parts, lambda between: any(anchor in between for anchor in anchors)):
            text = decoded(part[:LINE_BYTES])
            self._split_where_run_together(text, line, rows_matching(text, rows))

    # ---- lines

    def _split_where_run_together(self, whole: str, line: int, rows: list[MessageRow]) -> None:
        """A process may print behind a bar, or behind what another has not ended yet."""
        parts = split_where_run_together(whole)
        if len(parts) == 1:
            self._line(whole, line, rows)
            return
        for text in first_and_last_parts(parts, lambda between: bool(rows_matching(between, rows))):
            self._line(text, line, rows_matching(text, rows))

    def _line(self, whole: str, line: int, rows: list[MessageRow]) -> None:
        if "^C" in whole[:_HEAD]:
            whole = _ECHOED.sub("", whole, count=1)
        said = self.prefixes.read(searchable_part(whole, rows), line)
        text = self._named(said).text
        if not text.strip():
            if self.tracebacks.busy:
                said.dated = ""
                self.tracebacks.take(said)
            return
        said.dated = said.dated[:160]
        if self._first_time_s is None:
            self._first_time_s = self.clock.time_of(said.dated)
        self._latest.append(said.dated)
        self._learn(said.speaker, text)
        in_traceback = self.tracebacks.take(said)
        in_table = (
            not in_traceback
            and text.lstrip().startswith(TABLE_FIELDS)
            and self.exits.take_line(text, line, self.attempt)
        )
        # A literal of a message may stand in an ordinary line too.
        if in_traceback and self.tracebacks.in_ignored:
            rows = [row for row in rows if row.id != "py.error"]
        told = bool(rows) and self._events(said, rows)
        if in_traceback:
            self.story.note_stack_line(said)
        if in_traceback or in_table:
            return
        if told and "NCCL" not in text and any(row.says in ("setting", "count") for row in rows):
            said.rank = _self_named_rank(text)
            self._start_or_end(said)
        elif not told:
            self._ordinary(said)

    def _named(self, said: SpokenLine) -> SpokenLine:
        """In the file of one of Ray's workers: by the program that its last heading names."""
        if said.text.startswith(_WHOSE):
            name = said.text.partition(":")[2].partition(":")[2]
            self._whose = Speaker(pid=self._whose.pid, program=name.strip()[:100])
        if said.speaker is UNKNOWN_SPEAKER:
            said.speaker = self._whose
        return said

    def _learn(self, speaker: Speaker, text: str) -> None:
        """What the line tells of who speaks."""
        if speaker is not UNKNOWN_SPEAKER:
            self.voices.learn(speaker, speaker.rank)
        if speaker.name is not None or "pid" in text or "Pid" in text or "PID" in text or "is assigned as" in text:
            self.voices.learn_named(speaker, text)

    def _ordinary(self, said: SpokenLine) -> None:
        text = said.text
        shape = self._shapes.of(text)
        step = self._step(said.speaker, text, may_count=shape.step)
        said.rank = _self_named_rank(text) if shape.rank else None
        if said.rank is not None:
            self.voices.learn_spoken(said.speaker, said.rank)
        if (shape.start_or_end or self.endings.expects_continuation) and (
            step is None or "$ " in text or text.startswith(("+ ", TRAINER_SUMMARY))
        ):
            self._start_or_end(said)
        if step is not None:
            self.progress.take(said, step, self.clock.time_of(said.dated), self.attempt)
        elif shape.complaint:
            self.unrecognized_failures.take(said, shape.key, self._item("", said, said.rank, {}, said.speaker.host))
        if shape.words:
            self.story.take(said)
        elif shape.stack:
            self.story.note_stack_line(said)

    def _start_or_end(self, said: SpokenLine) -> None:
        for ending in self.endings.take(said.text, said.number, self.attempt):
            self._endings.append((ending, said.speaker, said.told))

    def _step(self, speaker: Speaker, text: str, *, may_count: bool) -> LogStep | None:
        if text.startswith("{'") and is_trainer_line(text):
            return self._trainer_step(speaker, text)
        step = find_step(text) if may_count else None
        told_less = step is None or step.unit == "epoch"
        return self._trainer_step(speaker, text) if told_less and is_trainer_line(text) else step

    def _trainer_step(self, speaker: Speaker, text: str) -> LogStep:
        """Lines of the transformers Trainer carry no step: they are counted."""
        count = self._trainer[speaker] = self._trainer.get(speaker, 0) + 1
        return LogStep("trainer log", count, None, "log", find_step_time(text))

    def _events(self, said: SpokenLine, rows: list[MessageRow]) -> bool:
        """Keep what the line tells; False when it only looked like a message."""
        matches = match_rows(said.text, rows)
        for row in rows:
            if not any(match.row is row for match in matches):
                self.events.note_false_match(row)
        if not matches:
            return False
        told = origin_fields(said.text)
        self.voices.learn(said.speaker, _stated_rank(told))
        for match in matches:
            self._event(match, said, told)
        return True

    def _event(self, match: MessageMatch, said: SpokenLine, told: dict[str, Any]) -> None:
        row, speaker = match.row, said.speaker
        self.story.message(row.says, benign=row.benign)
        if row.id.startswith("k.") and speaker.host is None:
            speaker = speaker._replace(host=kernel_host(said.text))
        self._note(row, match.values, told)
        wanted = self.events.wants(match, speaker, told, self.attempt)
        if not wanted and not self.exits.hears(row.id):
            return
        rank, host = told.get("rank", speaker.rank), told.get("nccl_host") or speaker.host
        event = self._item(row.id, said, rank, values_told(match, told), host)
        self.exits.take_event(event, speaker.host)
        if wanted:
            self.events.keep(event, speaker, told)

    def _item(
        self, kind: str, said: SpokenLine, rank: int | None, values: Mapping[str, Any], host: str | None
    ) -> LogEvent:
        return LogEvent(
            kind,
            Source(self.source, said.number),
            said.text[:_TEXT_CHARS],
            rank,
            self.clock.time_of(said.dated),
            values,
            self.attempt,
            host or self.host,
            self.clock.time_form(said.dated),
            said.speaker.program or "",
        )

    def _note(self, row: MessageRow, values: Any, told: dict[str, Any]) -> None:
        if (
            row.id in ("n.init_start", "n.init_complete")
            and "nccl_pid" in told
            and {"comm_rank", "comm_size"} <= values.keys()
        ):
            self.voices.learn_process(told["nccl_host"], told["nccl_pid"], values["comm_rank"], values["comm_size"])
        elif row.id == "te.restart":
            self.attempt += 1
        elif row.id == "te.restart_count":
            self.attempt = max(self.attempt, min(values.get("attempt", 0), MAX_ATTEMPTS))
        self.tracebacks.attempt = self.attempt
        if row.id.startswith("k."):
            self._kernel += 1
        elif row.id.startswith(("te.", "srun.", "slurm.", "pals.", "mpi.", "ds.", "rdzv.")):
            self._launcher += 1

    # ---- the result

    def reading(self, blocks: Blocks, lines: int) -> LogReading:
        """Everything the lines told, now that it is known who is which rank."""
        events = self.events.log_events(self.voices)
        tracebacks = tuple(
            raw.item(self.source, self.voices, self.clock.time_of, self.host)
            for raw in sorted(self.tracebacks.done, key=lambda raw: raw.line)
        )
        last_lines = self.story.last_lines(self._said)
        progress = tuple(self.voices.resolved(self.progress.runs()))
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
            tuple(self.exits.exits(self.voices, self.endings, self.host)),
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
            tuple(map(self._said, self.story.lines())),
            tuple(self.voices.resolved(self.unrecognized_failures.kept)),
            tuple(self._resolved_endings()),
            tuple(sorted(self.endings.sizes)),
            self.endings.started_line,
            self.clock.has_year,
            self.voices.programs,
        )

    def _said(self, said: SpokenLine, followed: bool = False) -> LastLine:
        rank = self.voices.rank_of(said.speaker, said.told)
        where, time_s = Source(self.source, said.number), self.clock.time_of(said.dated)
        return LastLine(where, rank, said.text, time_s, followed, said.speaker.program or "")

    def _resolved_endings(self) -> Iterator[LogEnding]:
        for ending, speaker, told in self._endings:
            rank = self.voices.rank_of(speaker, told)
            own = (rank,) if ending.who in ("rank", "group") and rank is not None else ()
            yield replace(ending, ranks=ending.ranks or own)

    def _last_time_s(self) -> float | None:
        times = (self.clock.time_of(dated) for dated in reversed(self._latest))
        return next((time_s for time_s in times if time_s is not None), self._first_time_s)

    def _role(self, lines: int) -> str:
        spoke = self.voices.heard or self.voices.places or self.progress.runs()
        if self._kernel and self._kernel * 3 >= max(1, len(self.events)) and not spoke:
            return "kernel"
        if self.rank is None and self._launcher and not self.voices.heard and self._launcher * 2 >= len(self.events):
            return "launcher" if lines else ""
        return ""

    def _unread(self, blocks: Blocks, lines: int) -> Iterable[Unread]:
        where = Source(self.source)
        yield from self._failures
        if self._failed > MAX_FAILURES_NAMED:
            more = self._failed - MAX_FAILURES_NAMED
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
    r"|\[(?:GPU|gpu|rank|Rank|RANK)[ :=]{0,2}(\d{1,5})\]|\d,? rank (\d{1,5})(?=$|, world)"
    r"|(?:^|: )rank(\d{1,5})\[\d{1,10}\]"
)


def _self_named_rank(text: str) -> int | None:
    """A rank that an ordinary line names itself by (``train, rank: 9, epoch …``, ``loss 2.1 lr 0.01 rank 9``)."""
    if (rank := numbered_rank(text)) is not None:
        return rank
    found = _SPOKEN_RANK.search(text[:200])
    return numbers.rank(next(group for group in found.groups() if group)) if found else None


def _stated_rank(told: dict[str, Any]) -> int | None:
    """The global rank a line names outright: its own prefix, or its rank in the default group."""
    in_default_group = "group" in told and str(told.get("group_description", "")).startswith("default")
    rank = told.get("rank", told.get("group_rank") if in_default_group else None)
    return int(rank) if rank is not None else None
