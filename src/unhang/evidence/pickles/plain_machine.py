"""The state of a pickle that is being read, and what the actions of its opcodes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unhang.errors import DumpError

MAX_KEPT = 1 << 22


class CutShort(Exception):
    """The bytes end inside an opcode."""


class Memo(dict[int, Any]):
    """Values by slot. A slot that was never stored is refused; readers that skip parts override this."""

    def __missing__(self, slot: int) -> Any:
        raise DumpError(f"the pickle refers to a value it never stored (slot {slot})")


class PlainMachine:
    """Stack, marks and memo of a pickle while its harmless opcodes are run.

    ``on_entry(entry, byte)`` is called for each dict completed directly inside the list of recorder entries (the value
    of ``"entries"``, or the outermost list) with the byte where it starts; it may empty the dict, so that long
    recordings need little memory. When it returns True the run halts there and ``run`` returns the next byte.
    """

    def __init__(
        self, data: bytes, *, memo: Memo | None = None, on_entry: Callable[[dict[Any, Any], int], bool] | None = None
    ) -> None:
        self.data = data
        self.memo = Memo() if memo is None else memo
        self.on_entry = on_entry
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.mark_bytes: list[int] = []
        self.kept = 0
        self.halted = False
        self.mark_byte = 0
        self.finished = False

    @property
    def result(self) -> Any:
        """The value of a finished pickle."""
        if len(self.stack) != 1 or self.marks:
            raise DumpError("the pickle ends with an unfinished value")
        return self.stack[0]

    def folded(self) -> Any:
        """The outermost container of a torn pickle with every item that is complete; None when there is none yet.

        An item that is itself a dict still being filled inside a list is left out: half an entry tells lies.
        """
        if len(self.stack) > 1 and isinstance(self.stack[-1], list | dict) and not self.stack[-1]:
            self.stack.pop()  # opened a moment before the end
        while self.marks:
            start = self.marks.pop()
            items = self.stack[start:]
            del self.stack[start:]
            if self.stack:
                self._fold_into(self.stack[-1], items)
        while len(self.stack) > 1:  # protocol 0 fills what is open item by item, without marks
            item = self.stack.pop()
            holder = self.stack[-2] if len(self.stack) > 1 else None
            if isinstance(holder, dict) and isinstance(self.stack[-1], str) and isinstance(item, dict | list) and item:
                holder[self.stack.pop()] = item
        return self.stack[0] if self.stack else None

    def _fold_into(self, target: Any, items: list[Any]) -> None:
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, dict):
            parent = self.stack[self.marks[-1] - 1] if self.marks and self.marks[-1] > 0 else None
            if isinstance(parent, list):
                self.stack.pop()
                return
            target.update((k, v) for k, v in zip(items[::2], items[1::2], strict=False) if isinstance(k, str))

    # -- what the actions share ----------------------------------------------------------------------

    def take(self, byte: int, size: int) -> bytes:
        """``size`` bytes from ``byte``; :class:`CutShort` when they are not all there."""
        piece = self.data[byte : byte + size]
        if len(piece) != size:
            raise CutShort
        return piece

    def unsigned(self, byte: int, size: int) -> int:
        """A little-endian length or index."""
        return int.from_bytes(self.take(byte, size), "little")

    def pop_mark(self) -> int:
        """Stack height at the innermost open mark."""
        if not self.marks:
            raise DumpError("the pickle closes a container it never opened")
        self.mark_byte = self.mark_bytes.pop()
        return self.marks.pop()

    def keep(self, count: int) -> None:
        """Count items put into containers; a pickle that keeps too many is refused."""
        self.kept += count
        if self.kept > MAX_KEPT:
            raise DumpError(f"the pickle contains more than {MAX_KEPT:,} values")

    def beneath(self, height: int, kind: type) -> Any:
        """The container of ``kind`` right below stack ``height``."""
        floor = self.marks[-1] if self.marks else 0
        if height - 1 < floor or type(self.stack[height - 1]) is not kind:
            raise DumpError(f"the pickle fills something that is not a {kind.__name__}")
        return self.stack[height - 1]

    def entry_done(self, entry: dict[Any, Any], byte: int) -> None:
        """Hand a finished entry over."""
        assert self.on_entry is not None
        marks, stack = self.marks, self.stack
        if not 1 <= len(marks) <= 2 or marks[-1] == 0 or type(stack[marks[-1] - 1]) is not list:
            return
        if len(marks) == 2 and (marks[-1] < 2 or stack[marks[-1] - 2] != "entries"):
            return
        self.halted = self.on_entry(entry, byte)
        self.kept = 0
