"""What a guard's error says in the last line of its message, for ``unhang diagnose``: one line of JSON behind a mark.

    unhang.guard/1 {"kind":"missing","what":"together('save')","ranks":[1],"came":[0],"test":"if rank == 0"}

Keys are the fields of :class:`GuardStatement`; what is empty is left out. A key may be added at any time; where one
comes to mean something else, the mark's number changes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from unhang.wire.rank_ranges import format_ranks
from unhang.wire.record_views import CodeLine

GuardErrorKind = Literal["missing", "differ", "apart", "slow", "failed"]
MARK = "unhang.guard/1 "
RAISED_AS: dict[str, tuple[GuardErrorKind, ...]] = {
    "unhang.errors.RanksMissing": ("missing",),
    "unhang.errors.RanksDiffer": ("differ", "apart"),
    "unhang.errors.RankFailed": ("slow", "failed"),
}
"""The exceptions that have such a line, each with what they may say."""
MAX_LISTED, MAX_LETTERS = 16, 1000
"""More ranks are written as ranges; of ranges, and of a text, what does not fit is left out."""


@dataclass(frozen=True, slots=True)
class GuardStatement:
    """``what``: the guard's call, or the name of the value it compared. ``ranks``: those it names; ``came``: those that
    waited for them; ``branch``, ``test``: what lets only some ranks come; ``at``: where a named rank was last seen;
    ``detail``: the first difference, or why one failed; ``of_data``: rows or batches differ, or a split has no seed."""

    kind: GuardErrorKind
    what: str
    ranks: tuple[int, ...]
    came: tuple[int, ...] = ()
    branch: CodeLine | None = None
    test: str = ""
    at: CodeLine | None = None
    detail: str = ""
    of_data: bool = False
    partner_died: bool = False
    waited_s: float = 0.0

    def line(self) -> str:
        """The line as a guard writes it, in ASCII."""
        return MARK + json.dumps(_bounded(asdict(self)), separators=(",", ":"))


def decode_statement(text: str) -> dict[str, Any] | None:
    """The object behind the mark, also where a terminal broke its line; None where it is torn."""
    with suppress(ValueError, RecursionError):
        found = json.JSONDecoder().raw_decode("".join(text.strip().removeprefix(MARK).splitlines()))[0]
        return found if isinstance(found, dict) else None
    return None


def _bounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bounded(each) for name, each in value.items() if each}
    if isinstance(value, tuple):
        return value if len(value) <= MAX_LISTED else format_ranks(value, MAX_LETTERS)
    if not isinstance(value, str) or len(value) <= MAX_LETTERS:
        return value
    cut = value[:MAX_LETTERS]
    return f"{cut.rpartition(' ')[0] or cut} …"  # half a secret shows no longer that it is one
