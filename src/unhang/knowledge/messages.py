"""Message shapes as data: which line of which program means what (``messages/*.toml``).

Every row has an ``anchor`` (a literal, or some, one of which stands in the line: for the fast first pass), a
``pattern`` with named fields, and a real ``example`` that it matches and no other row does. :func:`match_message`
reads one line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge import numbers
from unhang.knowledge.tables import list_toml_files, read_table, typed_rows


@dataclass(frozen=True, slots=True, eq=False)
class MessageRow:
    """One message shape. Each is loaded once: rows are told apart as objects, for every literal in a log."""

    id: str
    anchors: tuple[str, ...]
    """Literal texts, one of which every matching line holds."""
    expression: str
    """The pattern as it stands in the file."""
    example: str
    says: str
    """What kind of statement it is (``timeout``, ``status``, ``peer-gone``, ``oom``, ``network``, …)."""
    meaning: str
    source: str
    checked: str
    owner: str = ""
    since: str = ""
    until: str = ""
    """First and last version of the owner's program with this shape; empty = open."""
    benign: bool = False
    """Looks alarming or is plain information; must never become a cause."""
    wraps: str = ""
    """Field that holds another message inside this one (``terminated with exception: {error}``)."""
    fingerprint: str = ""
    """Name under which ``torch_lines.toml`` knows the line number of this message."""
    fallback: bool = False
    """Only used when no other row matches the line."""
    cause: Cause | None = None
    """What a process died of whose exception holds this message, whatever else the log tells."""
    stated: bool = False
    """The message itself is the finding: no detector weighs it against others."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression compiled, when its first line is met: most logs hold lines of few rows."""
        return _compiled(self.expression)


@dataclass(frozen=True, slots=True)
class MessageMatch:
    """A row that matched a line. ``inside`` is the id of the row whose text held it, else empty."""

    row: MessageRow
    values: Mapping[str, Any]
    inside: str = ""


SHORTEST_ANCHOR = 5
"""The first pass over a log looks at four bytes at a time and must see one aligned word of every anchor."""

_READ_AS: Mapping[str, Callable[[str], int | None]] = {
    **dict.fromkeys(
        (
            "rank", "from_rank", "to_rank", "other_rank", "a_rank", "b_rank", "comm_rank", "comm_size", "group_rank",
            "local_rank", "node_rank", "nodes", "world_size", "joined", "worker", "workers",
        ),
        numbers.rank,
    ),
    **dict.fromkeys(("limit_ms", "elapsed_ms"), partial(numbers.integer, most=int(numbers.MAX_SECONDS * 1000))),
    **dict.fromkeys(
        ("limit_s", "stuck_s", "waited_s", "elapsed", "limit", "left", "allowed"),
        partial(numbers.integer, most=int(numbers.MAX_SECONDS)),
    ),
    **dict.fromkeys(("exit_code", "signal_number"), numbers.exit_code),
    **dict.fromkeys(
        (
            "position", "elements_in", "elements_out", "last_enqueued", "last_started", "last_completed", "round",
            "device", "nvml_device", "a_device", "b_device", "port", "pid", "line", "waiting", "pending", "errno",
            "status", "opcode", "length", "vendor_error", "xid", "sxid", "suggested", "bytes", "got", "expected",
            "attempt", "attempt_number", "tries", "count", "rss_kb", "index", "cpu",
        ),
        numbers.integer,
    ),
}  # fmt: skip
"""Fields that are numbers. One that is out of its range is left out, as if the line did not tell it."""
_RANK_LISTS = frozenset(("ranks",))
_TWIN = re.compile(r"^(.*?[a-z_])\d$")
"""``status2`` is a second place of the field ``status`` in one pattern."""


@cache
def load_messages() -> tuple[MessageRow, ...]:
    """All rows, file by file in the order of their names. Raises :class:`KnowledgeError` for a row that is broken."""
    rows = tuple(row for name in list_toml_files("messages") for row in _read_file(name))
    ids = Counter(row.id for row in rows)
    if twice := [row_id for row_id, times in ids.items() if times > 1]:
        raise KnowledgeError(f"message id {', '.join(twice)} appears twice")
    return rows


def message_row(message_id: str) -> MessageRow:
    """The row with this id. Raises ``KeyError`` when there is none."""
    return _by_id()[message_id]


def match_message(text: str) -> list[MessageMatch]:
    """What a line says: the outermost message first, then messages it holds; empty when nothing is recognised."""
    return list(_match(text, inside=""))


def match_rows(text: str, rows: list[MessageRow]) -> list[MessageMatch]:
    """As :func:`match_message`, but tries only ``rows`` on the whole line (those with an anchor in it)."""
    return list(_match(text, inside="", rows=rows))


def _match(text: str, *, inside: str, rows: list[MessageRow] | None = None) -> Iterator[MessageMatch]:
    candidates = rows if rows is not None else _with_anchor_in(text)
    for row in candidates:
        if row.wraps and (found := row.pattern.search(text)) is not None:
            values = _values(found)
            yield MessageMatch(row, values, inside)
            yield from _match(str(values.get(row.wraps, "")), inside=row.id)
            return
    hits = [(row, found) for row in candidates if not row.wraps and (found := row.pattern.search(text)) is not None]
    plain = [hit for hit in hits if not hit[0].fallback] or hits
    for row, found in plain:
        yield MessageMatch(row, _values(found), inside)


def fields_of(row: MessageRow) -> tuple[str, ...]:
    """Names of the fields a row can give, in the order of its pattern."""
    return tuple(dict.fromkeys(_plain(name) for name in row.pattern.groupindex))


def field_type(name: str) -> str:
    """``int``, ``ranks`` (a tuple of ints) or ``str``: what the value of a field is wherever it appears."""
    if name in _RANK_LISTS:
        return "ranks"
    return "int" if name in _READ_AS else "str"


def _plain(name: str) -> str:
    twin = _TWIN.match(name)
    return twin.group(1) if twin else name


def _values(found: re.Match[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in found.groupdict().items():
        if value is None:
            continue
        plain = _plain(name)
        typed = _typed(plain, value)
        if typed is not None:
            values[plain] = typed
    return values


def _typed(name: str, value: str) -> Any:
    if name in _RANK_LISTS:
        return rank_list(value)
    if name == "operation":
        return bare_operation(value)
    read = _READ_AS.get(name)
    return value if read is None else read(value)


def rank_list(text: str) -> tuple[int, ...]:
    """Ranks named as ``0, 2`` or ``1-3,7`` (at most 65,536 of them)."""
    ranks: list[int] = []
    for first, last in re.findall(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?", text):
        ranks.extend(numbers.ranks_up_to(first, last or first)[:65_536])
        if len(ranks) > 65_536:
            break
    return tuple(ranks[:65_536])


_OPERATIONS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "_ALLREDUCE_SPARSE": "all_reduce_sparse",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "_all_gather_base",
    "ALLGATHER_COALESCED": "all_gather_into_tensor_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
    "RECVANYSOURCE": "recv",
}


def bare_operation(printed: str) -> str:
    """``ALLREDUCE`` as torch prints it is ``all_reduce`` as the flight recorder names it; most differ in case only."""
    return _OPERATIONS.get(printed.upper(), printed.lower())


def _with_anchor_in(text: str) -> list[MessageRow]:
    """Rows of which an anchor stands in ``text``, in their order."""
    pieces = {text[at : at + 4] for at in range(len(text) - 3)}
    by_piece = _by_piece()
    found = {
        number: row
        for piece in pieces.intersection(by_piece)
        for number, anchor, row in by_piece[piece]
        if anchor in text
    }
    return [found[number] for number in sorted(found)]


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression)
    except re.error as error:
        raise KnowledgeError(f"messages: {expression}: {error}") from error


@cache
def _by_piece() -> dict[str, list[tuple[int, str, MessageRow]]]:
    """(number of the row, anchor, row) under the four letters of the anchor that fewest anchors hold."""
    anchors = [(number, anchor, row) for number, row in enumerate(load_messages()) for anchor in row.anchors]
    common = Counter(anchor[at : at + 4] for _, anchor, _ in anchors for at in range(len(anchor) - 3))
    found: dict[str, list[tuple[int, str, MessageRow]]] = {}
    for number, anchor, row in anchors:
        piece = min((anchor[at : at + 4] for at in range(len(anchor) - 3)), key=lambda each: common[each])
        found.setdefault(piece, []).append((number, anchor, row))
    return found


@cache
def _by_id() -> dict[str, MessageRow]:
    return {row.id: row for row in load_messages()}


def _read_file(name: str, text: str | None = None) -> tuple[MessageRow, ...]:
    path = f"messages/{name}"
    table = read_table(path, text)
    rows = typed_rows(path, [_as_fields(row) for row in table.pop("message")], MessageRow, table)
    for row in rows:
        if not all(anchor.isascii() and len(anchor) >= SHORTEST_ANCHOR for anchor in row.anchors):
            raise KnowledgeError(
                f"{path}: {row.id}: an anchor is at least {SHORTEST_ANCHOR} ASCII characters (seven are faster)"
            )
    return rows


def _as_fields(row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with the names of :class:`MessageRow`; an anchor may stand alone."""
    anchors = row.pop("anchor", "")
    fields = {"anchors": (anchors,) if isinstance(anchors, str) else anchors, "expression": row.pop("pattern", "")}
    return {**row, **fields}
