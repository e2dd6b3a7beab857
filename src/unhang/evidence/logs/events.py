"""Recognised lines of one log: equal ones and floods are folded, the rest become events."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from unhang.evidence.items import LogEvent
from unhang.evidence.logs.lines.prefixes import UNKNOWN_SPEAKER, Speaker
from unhang.evidence.logs.lines.speakers import SpeakerRanks, Spoken
from unhang.knowledge import numbers
from unhang.knowledge.job.versions import torch_version_from_line
from unhang.knowledge.messages import MessageMatch, MessageRow, bare_operation, message_row
from unhang.late_pattern import late_pattern

MAX_EQUAL, MAX_EQUAL_PLAIN, MAX_EVENTS_OF_RANK, MAX_EVENTS_OF_KIND, MAX_EVENTS = 4, 1, 400, 60_000, 60_000
FLOOD, FLOOD_BENIGN = MAX_EVENTS_OF_KIND, 2048
REPEATS_UNTIL_SAMPLING, BENIGN_REPEATS_UNTIL_SAMPLING = 1024, 256
"""After so many lines of a kind, or so many in a row that were left out, only one of every block is looked at."""
MAX_EQUAL_UNNAMED = 64
"""Equal lines nobody is named in may come from as many ranks: more of them are kept."""
_ONCE = frozenset(("timeout", "async-error", "aborted", "echo", "status"))
"""Statements that torch repeats inside the texts of exceptions: an equal one of the same rank is an echo."""
PLAIN_STATEMENTS = frozenset(("init", "setting", "address", "version", "recorder-off"))
"""Statements of what is: said twice they tell no more."""
_DURATION_FIELDS = frozenset(("elapsed_ms", "waited_s"))
"""How long a wait had lasted when it was told: the same wait is told of again a moment later."""

_ORIGIN_FIELDS = frozenset(
    (
        "cpp_file",
        "cpp_line",
        "torch_versions",
        "inside",
        "group_id",
        "group",
        "group_description",
        "group_rank",
        "error",
        *_DURATION_FIELDS,
    )
)


class EventKeeper:
    """Keeps what was recognised. ``folded`` counts, by kind, what was left out."""

    def __init__(self) -> None:
        self.folded: dict[str, int] = {}
        self._kept: list[Spoken[LogEvent]] = []
        self._equal: dict[Hashable, int] = {}
        self._of_rank: dict[Hashable, int] = {}
        self._of_kind: dict[str, int] = {}
        self._nothing_new: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def wants(self, match: MessageMatch, speaker: Speaker, told: Mapping[str, Any], attempt: int) -> bool:
        """Whether what a line tells is to be kept: False once there is enough like it."""
        row = match.row
        voice = (told.get("rank", speaker.rank), speaker, told.get("group_rank"), told.get("nccl_pid"), attempt)
        told_once = row.says in _ONCE
        values = (
            (name, _without_durations(str(value)))
            for name, value in match.values.items()
            if name not in _DURATION_FIELDS or not told_once
        )
        equal = (row.id, voice, tuple(sorted(values)))
        if len(self._equal) > MAX_EVENTS:
            self._equal.clear()
        seen = self._equal[equal] = self._equal.get(equal, 0) + 1
        of_rank = self._of_rank[row.id, voice] = self._of_rank.get((row.id, voice), 0) + 1
        of_kind = self._of_kind[row.id] = self._of_kind.get(row.id, 0) + 1
        named = voice[:4] != (None, UNKNOWN_SPEAKER, None, None)
        enough = (
            MAX_EQUAL_UNNAMED
            if not named
            else MAX_EQUAL_PLAIN
            if row.benign or row.says in PLAIN_STATEMENTS
            else MAX_EQUAL
        )
        if (
            seen > (1 if told_once or match.inside else enough)
            or of_rank > MAX_EVENTS_OF_RANK
            or of_kind > MAX_EVENTS_OF_KIND
            or len(self._kept) >= MAX_EVENTS
        ):
            self.folded[row.id] = self.folded.get(row.id, 0) + 1
            self._nothing_new[row.id] = self._nothing_new.get(row.id, 0) + 1
            return False
        self._nothing_new[row.id] = 0
        return True

    def keep(self, event: LogEvent, speaker: Speaker, told: Mapping[str, Any]) -> None:
        """Keep what a line tells."""
        self._kept.append((event, speaker, told))

    def note_false_match(self, row: MessageRow) -> None:
        """A line held a literal of this kind and was not of this kind."""
        self._nothing_new[row.id] = self._nothing_new.get(row.id, 0) + 1

    def enough(self, row: MessageRow) -> bool:
        """Whether so many lines of this kind came that one of every block suffices from now on."""
        seen, nothing_new = self._of_kind.get(row.id, 0), self._nothing_new.get(row.id, 0)
        if row.benign:
            return seen >= FLOOD_BENIGN or nothing_new >= BENIGN_REPEATS_UNTIL_SAMPLING
        return seen >= FLOOD or nothing_new >= REPEATS_UNTIL_SAMPLING

    def leave_out(self, row: MessageRow) -> None:
        """Count a line of this kind that was not looked at."""
        self.folded[row.id] = self.folded.get(row.id, 0) + 1

    def log_events(self, voices: SpeakerRanks) -> tuple[LogEvent, ...]:
        """The events, now that ``voices`` knows who is which rank."""
        return tuple(self._without_echoes(voices.resolved(self._kept)))

    def _without_echoes(self, events: Iterable[LogEvent]) -> Iterable[LogEvent]:
        """Events of one rank that torch repeats inside exception texts, only once each."""
        seen: set[Hashable] = set()
        for event in events:
            if message_row(event.kind).says in _ONCE:
                values = ((name, str(value)) for name, value in event.values.items() if name not in _ORIGIN_FIELDS)
                key = (event.kind, event.rank, event.attempt, tuple(sorted(values)))
                if key in seen:
                    self.folded[event.kind] = self.folded.get(event.kind, 0) + 1
                    continue
                seen.add(key)
            yield event


_LENGTH = late_pattern(r"\b\d+(?:\.\d+)?(?= ?(?:ms|milliseconds|s|sec|seconds)\b)")


def _without_durations(text: str) -> str:
    """The text without how long something lasted: a wait told of again a moment later is the same wait."""
    return _LENGTH.sub("", text) if " " in text else text


def values_told(match: MessageMatch, told: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a recognised line, among them what it tells of its origin."""
    row = match.row
    values = {name: value for name, value in told.items() if name not in ("rank", "nccl_host")} | dict(match.values)
    if match.inside:
        values["inside"] = match.inside
    if row.fingerprint and not match.inside and told.get("cpp_file") == "ProcessGroupNCCL.cpp":
        values["torch_versions"] = torch_version_from_line(row.fingerprint, told.get("cpp_line", 0))
    if row.id == "det.mis":
        _add_fingerprints(values)
    return values


_FINGERPRINT_FIELD = re.compile(r"(SequenceNumber|OpType|TensorShape|TensorDtypes)=(\[[^\]]*\]|[^,()]*)")


def _add_fingerprints(values: dict[str, Any]) -> None:
    """``mine``/``theirs`` of a fingerprint mismatch as dicts: position, operation, shape, dtype."""
    for name in ("mine", "theirs"):
        if name not in values:
            continue
        fields = dict(_FINGERPRINT_FIELD.findall(str(values[name])))
        parsed: dict[str, Any] = {}
        if (position := numbers.integer(fields.get("SequenceNumber", ""))) is not None:
            parsed["position"] = position
        if "OpType" in fields:
            parsed["operation"] = bare_operation(fields["OpType"].strip())
        if "TensorShape" in fields:
            parsed["shape"] = tuple(numbers.integer(size) or 0 for size in re.findall(r"\d+", fields["TensorShape"]))
        if "TensorDtypes" in fields:
            parsed["dtype"] = fields["TensorDtypes"].strip().lower()
        values[name] = parsed
