"""Which remedies are one certain edit of one place, and which (``edits.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from unhang.knowledge.tables import read_typed


class EditRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to make the edit of a remedy; ``edits.toml`` says what each field means."""

    kind: Literal["argument", "statement", "branch", "value"]
    place: Literal["finding", "remedy", "program"] = "finding"
    calls: tuple[str, ...] = ()
    name: str = ""
    code: str = ""
    given: Literal["any", "absent", "literal", "present"] = "any"
    most: int = 255
    unless: tuple[str, ...] = ()
    safe: bool = False

    def filled(self, values: Mapping[str, Any]) -> EditRow:
        """The row with the places of its texts filled."""
        calls = tuple(call.format(**values) for call in self.calls)
        texts = {part: getattr(self, part).format(**values) for part in ("name", "code")}
        return msgspec.structs.replace(self, calls=calls, **texts)


@cache
def edit_rows() -> Mapping[str, tuple[EditRow, ...]]:
    """The ways of each remedy, by its name; the first that fits the program is made."""
    return read_typed("edits.toml", dict[str, tuple[EditRow, ...]])
