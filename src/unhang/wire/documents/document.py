"""A JSON document of ours: one structure that is written and read, with its schema.

A document is somebody's file like any other: one that cannot be right is unread as a whole rather than half believed.
Keys that this version does not know are left out: within one schema keys are added, never renamed. What has its default
is not written.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeVar

import msgspec

from unhang.findings import Source, Unread

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
JSON_ERRORS: Final = (ValueError, RecursionError)
"""What content that cannot be decoded raises: text that is not UTF-8 is not among msgspec's own errors, and JSON nested
too deep raises RecursionError, not ValueError."""
MAX_RANKS = 1_000_000
MAX_TEXT = 4_096
_HIDDEN = r"\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"

Name = Annotated[str, msgspec.Meta(max_length=MAX_TEXT, pattern=rf"^[^{_HIDDEN}]*\Z")]
"""What may be shown to somebody."""
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Rank = Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Line = tuple[Name, Count, Name]
"""File, number (0 where there is none) and function."""


_NOWHERE = Source("")


class Part(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is quoted by itself."""

    source: Source = _NOWHERE
    """Where it was read; set by the reader."""


class Document(Part, frozen=True, tag_field="schema"):
    """A whole file; its tag is its schema."""

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        return ""

    def json(self) -> bytes:
        """As it is written."""
        encoded = msgspec.json.encode(msgspec.structs.replace(self, source=_NOWHERE))
        return msgspec.json.format(encoded, indent=1) + b"\n"


class _Head(msgspec.Struct, frozen=True):
    schema: str


def schema_of(raw: bytes) -> str:
    """The schema that a document names. Raises one of ``DECODE_ERRORS`` where it names none."""
    return msgspec.json.decode(raw, type=_Head).schema


_Document = TypeVar("_Document", bound=Document)


def read_document(kind: type[_Document], raw: bytes, called: str, source: Source) -> _Document | Unread:
    """What ``raw`` holds, or why it cannot be believed. ``called``: what such a document is called."""
    schema: Any = kind.__struct_config__.tag
    try:
        told = schema_of(raw)
        if told != schema:
            return Unread(source, f"is not {called}: its schema is {told[:60]!r}, not {schema!r}")
        found = msgspec.json.decode(raw, type=kind)
    except DECODE_ERRORS as error:
        reason = re.sub(r"matching regex '.*'", "without control characters", str(error))
        return Unread(source, f"is not {called}: {reason[:200]}")
    if problem := found.problem():
        return Unread(source, f"is {called} that cannot be right: {problem}")
    return msgspec.structs.replace(found, source=source)
