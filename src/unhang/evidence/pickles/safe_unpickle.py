"""Read a pickle as plain containers only: dict, list, tuple, str, bytes, int, float, bool, None.

A pickle is a program. This runs the opcodes that build plain values and refuses every other one (those that import,
call, or restore objects) with its name and place, so nothing in the file can run. No length or index in the file
makes it allocate: strings are cut from what is there, and the memo is a dict.

:class:`PlainMachine` is the engine; the flight-recorder reader drives it piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unhang.errors import DumpError
from unhang.evidence.pickles.plain_opcodes import ACTIONS, CutShort

MAX_STACK = 1 << 20
MAX_KEPT = 1 << 22
_SLICE = 1 << 20  # how far the engine runs before it looks at the height of its stack

_BININT1, _STOP = ord("K"), ord(".")
_FREQUENT = b"hK"  # most opcodes of a dump: a stored value, a small number


class Memo(dict[int, Any]):
    """Values by slot. A slot that was never stored is refused; readers that skip parts override this."""

    def __missing__(self, slot: int) -> Any:
        raise DumpError(f"the pickle refers to a value it never stored (slot {slot})")


@dataclass(frozen=True, slots=True)
class PlainReading:
    """What a pickle held. ``cut_at`` is the byte where a torn file ends, else None."""

    value: Any
    cut_at: int | None


def read_plain(data: bytes) -> PlainReading:
    """The value of the pickle ``data``; a torn one gives the containers that were open, without their last item.

    Raises :class:`DumpError` when the pickle asks for anything but plain containers, or is malformed.
    """
    machine = PlainMachine(data)
    try:
        machine.run(0)
    except CutShort:
        return PlainReading(machine.folded(), len(data))
    return PlainReading(machine.result, None)


class PlainMachine:
    """Runs a pickle's harmless opcodes.

    ``on_entry(entry, byte)`` is called for each dict completed directly inside the list of recorder entries (the value
    of ``"entries"``, or the outermost list) with the byte where it starts; it may empty the dict, so that long
    recordings need little memory. When it returns True the run halts there and ``run`` returns the next byte.
    """

    def __init__(
        self,
        data: bytes,
        *,
        memo: Memo | None = None,
        on_entry: Callable[[dict[Any, Any], int], bool] | None = None,
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

    def run(self, byte: int, stop: int | None = None) -> int:
        """Execute from ``byte`` to the end of the pickle (or ``stop``); return the byte after the last opcode.

        Raises :class:`CutShort` at the end of the data, :class:`DumpError` for what is refused or malformed.
        """
        end = len(self.data) if stop is None else stop
        self.halted = False
        while byte < end and not self.finished:
            byte = self._run_slice(byte, min(end, byte + _SLICE))
            if self.halted:
                return byte
            if len(self.stack) > MAX_STACK:
                raise DumpError(f"refused: more than {MAX_STACK:,} values are open at byte {byte}")
        if stop is None and not self.finished:
            raise CutShort
        return byte

    def _run_slice(self, byte: int, end: int) -> int:
        data, memo, push = self.data, self.memo, self.stack.append  # locals: this loop is where the time goes
        size = len(data)
        while byte < end:
            code = data[byte]
            if code in _FREQUENT:
                if byte + 1 >= size:
                    raise CutShort
                value = data[byte + 1]
                push(value if code == _BININT1 else memo[value])
                byte += 2
            elif code == _STOP:
                self.finished = True
                return byte + 1
            else:
                byte = ACTIONS[code](self, byte)
                if self.halted:
                    return byte
        return byte

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
            raise DumpError(f"the pickle holds more than {MAX_KEPT:,} values")

    def beneath(self, height: int, kind: type) -> Any:
        """The container of ``kind`` right below stack ``height``."""
        floor = self.marks[-1] if self.marks else 0
        if height - 1 < floor or type(self.stack[height - 1]) is not kind:
            raise DumpError(f"the pickle fills something that is no {kind.__name__}")
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
