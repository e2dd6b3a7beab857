"""Read a JSON dump: at once, or value by value and entry by entry, so that a torn file gives what it holds."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final

from unhang.errors import DumpError
from unhang.evidence.flight_recorder.columns import EntryColumns, SharedTables
from unhang.evidence.flight_recorder.header import KNOWN_KEYS, ParsedDump
from unhang.evidence.flight_recorder.ring_window import dump_of_columns, dump_of_objects

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
_AT_ONCE: Final = 16 << 20
"""What is longer is read piece by piece although it takes longer: its objects need ten times as much memory."""


class _CutShort(Exception):
    """The text ends inside a value."""


def looks_like_json(data: bytes) -> bool:
    """Whether ``data`` starts like a JSON object or list."""
    return data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def read_json(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    """The dump in the JSON text ``data``; of a torn one every value that is complete.

    Raises :class:`DumpError` when the text is no flight-recorder dump.
    """
    text = data.decode("utf-8-sig", "replace")
    root = None
    if len(data) <= _AT_ONCE:
        with suppress(ValueError, RecursionError):
            root = _DECODER.decode(text)
    if root is not None:
        _check_root(root)
        return dump_of_objects(root, shared, whole=whole)
    return _read_in_pieces(text, len(data), shared, whole=whole)


def _read_in_pieces(text: str, size: int, shared: SharedTables, *, whole: bool) -> ParsedDump:
    reader = _Reader(text, EntryColumns(shared))
    cut_at = None
    try:
        reader.read()
    except _CutShort:
        cut_at = size
    if not len(reader.columns):
        _check_root(reader.root)
    return dump_of_columns(reader.columns, reader.root, shared, whole=whole, cut_at=cut_at)


def _check_root(root: Any) -> None:
    known = KNOWN_KEYS & root.keys() if isinstance(root, dict) else any(isinstance(entry, dict) for entry in root)
    if not known:
        raise DumpError("JSON, but not a flight-recorder dump: it has neither entries nor groups")


class _Reader:
    def __init__(self, text: str, columns: EntryColumns) -> None:
        self.text = text
        self.columns = columns
        self.root: dict[str, Any] = {}

    def read(self) -> None:
        at = self._skip(0)
        if self._at(at) == "[":
            self._entries(at)
            return
        if self._at(at) != "{":
            raise DumpError("not a JSON object")
        at = self._skip(at + 1)
        while self._at(at) != "}":
            key, at = self._value(at)
            at = self._past(at, ":")
            if key == "entries" and self._at(at) == "[":
                self.root[key] = []
                at = self._entries(at)
            else:
                value, at = self._value(at)
                self.root[str(key)] = value
            at = self._next(at, "}")

    def _entries(self, at: int) -> int:
        at = self._skip(at + 1)
        while self._at(at) != "]":
            entry, at = self._value(at)
            if isinstance(entry, dict):
                self.columns.add(entry)
            at = self._next(at, "]")
        return at + 1

    def _value(self, at: int) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise self._broken(error.pos) from None
        except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
            raise DumpError(f"JSON with a value that no recorder writes, at character {at}") from None

    def _broken(self, at: int) -> Exception:
        # a text that simply ends is torn; one that goes on with something else is not JSON
        rest = len(self.text) - at
        return _CutShort() if rest <= 4096 and "\n{" not in self.text[at:] else DumpError(f"not JSON at character {at}")

    def _next(self, at: int, closing: str) -> int:
        at = self._skip(at)
        if self._at(at) == closing:
            return at
        return self._past(at, ",")

    def _past(self, at: int, wanted: str) -> int:
        at = self._skip(at)
        if self._at(at) != wanted:
            raise DumpError(f"not JSON at character {at}")
        return self._skip(at + 1)

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        assert found is not None
        return found.end()

    def _at(self, at: int) -> str:
        if at >= len(self.text):
            raise _CutShort
        return self.text[at]
