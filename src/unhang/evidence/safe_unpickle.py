"""Read a pickle as plain containers only: dict, list, tuple, str, bytes, int, float, bool, None.

A pickle is a program. This runs the opcodes that build plain values and refuses every other one (those that import,
call, or restore objects) with its name and place, so nothing in the file can run. No length or index in the file
makes it allocate: strings are cut from what is there, and the memo is a dict.

:class:`PlainMachine` is the engine; the flight-recorder reader drives it piece by piece.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unhang.errors import DumpError

MAX_DEPTH = 100
MAX_MEMO = 1 << 20
MAX_STACK = 1 << 20
MAX_KEPT = 1 << 22
_SLICE = 1 << 20  # how far the engine runs before it looks at the height of its stack
_MAX_INT_BYTES = 16
_MAX_INT_KEY = 1 << 31  # larger ones could be chosen to collide

_NAMES = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_BININT1, _STOP = ord("K"), ord(".")
_FREQUENT = b"hK"  # most opcodes of a dump: a stored value, a small number


class CutShort(Exception):
    """The bytes end inside an opcode."""


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
                byte = _ACTIONS[code](self, byte)
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


Action = Callable[[PlainMachine, int], int]


def _refuse(machine: PlainMachine, byte: int) -> int:
    code = machine.data[byte]
    name = _NAMES.get(code)
    if name is None:
        raise DumpError(f"not a pickle: unknown opcode {code:#04x} at byte {byte}")
    wanted = _wanted(machine, byte, name)
    raise DumpError(f"refused: it asks for {wanted} (opcode {name} at byte {byte}); nothing in it was run")


def _wanted(machine: PlainMachine, byte: int, name: str) -> str:
    if name in ("GLOBAL", "INST"):
        words = machine.data[byte + 1 : byte + 200].split(b"\n")[:2]
        return "the Python object " + ".".join(word.decode("utf-8", "replace")[:80] for word in words)
    if name == "STACK_GLOBAL" and len(machine.stack) >= 2:
        return "the Python object " + ".".join(str(word)[:80] for word in machine.stack[-2:] if isinstance(word, str))
    return "more than plain containers"


def _proto(machine: PlainMachine, byte: int) -> int:
    machine.take(byte + 1, 1)
    return byte + 2


def _frame(machine: PlainMachine, byte: int) -> int:
    machine.take(byte + 1, 8)  # the length is not trusted and not needed
    return byte + 9


def _constant(value: Any) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        machine.stack.append(value)
        return byte + 1

    return push


def _integer(size: int, *, signed: bool) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        machine.stack.append(int.from_bytes(machine.take(byte + 1, size), "little", signed=signed))
        return byte + 1 + size

    return push


def _long(width: int) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        size = machine.unsigned(byte + 1, width)
        if size > _MAX_INT_BYTES:
            raise DumpError(f"refused: an integer of {size} bytes at byte {byte}")
        start = byte + 1 + width
        machine.stack.append(int.from_bytes(machine.take(start, size), "little", signed=True))
        return start + size

    return push


def _float(machine: PlainMachine, byte: int) -> int:
    machine.stack.append(struct.unpack(">d", machine.take(byte + 1, 8))[0])
    return byte + 9


def _text(width: int) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        start = byte + 1 + width
        size = machine.unsigned(byte + 1, width)
        machine.stack.append(machine.take(start, size).decode("utf-8", "replace"))
        return start + size

    return push


def _bytes(width: int) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        start = byte + 1 + width
        size = machine.unsigned(byte + 1, width)
        machine.stack.append(machine.take(start, size))
        return start + size

    return push


def _mark(machine: PlainMachine, byte: int) -> int:
    if len(machine.marks) >= MAX_DEPTH:
        raise DumpError(f"refused: nested deeper than {MAX_DEPTH} levels at byte {byte}")
    machine.marks.append(len(machine.stack))
    machine.mark_bytes.append(byte)
    return byte + 1


def _empty(kind: type) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        machine.stack.append(kind())
        return byte + 1

    return push


def _appends(machine: PlainMachine, byte: int) -> int:
    start = machine.pop_mark()
    items = machine.stack[start:]
    machine.beneath(start, list).extend(items)
    del machine.stack[start:]
    machine.keep(len(items))
    return byte + 1


def _append(machine: PlainMachine, byte: int) -> int:
    height = len(machine.stack) - 1
    target = machine.beneath(height, list)
    target.append(machine.stack.pop())
    machine.keep(1)
    return byte + 1


def _check_keys(keys: list[Any], byte: int) -> None:
    for key in keys:
        if type(key) is not str and not (type(key) is int and abs(key) < _MAX_INT_KEY):
            raise DumpError(f"refused: a dictionary key that is no text before byte {byte}")


def _setitems(machine: PlainMachine, byte: int) -> int:
    start = machine.pop_mark()
    items = machine.stack[start:]
    target = machine.beneath(start, dict)
    if len(items) % 2:
        raise DumpError(f"the pickle has a key without a value before byte {byte}")
    keys = items[::2]
    _check_keys(keys, byte)
    target.update(zip(keys, items[1::2], strict=True))
    del machine.stack[start:]
    machine.keep(len(items))
    if machine.on_entry is not None:
        machine.entry_done(target, machine.mark_byte - 1)
    return byte + 1


def _setitem(machine: PlainMachine, byte: int) -> int:
    height = len(machine.stack) - 2
    target = machine.beneath(height, dict)
    _check_keys([machine.stack[height]], byte)
    value = machine.stack.pop()
    target[machine.stack.pop()] = value
    machine.keep(1)
    return byte + 1


def _tuple(machine: PlainMachine, byte: int) -> int:
    start = machine.pop_mark()
    items = tuple(machine.stack[start:])
    del machine.stack[start:]
    machine.stack.append(items)
    machine.keep(len(items))
    return byte + 1


def _short_tuple(size: int) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        stack = machine.stack
        start = len(stack) - size
        if start < (machine.marks[-1] if machine.marks else 0):
            raise DumpError(f"the pickle builds a tuple of nothing at byte {byte}")
        items = tuple(stack[start:])
        stack[start:] = [items]
        machine.keep(size)
        return byte + 1

    return push


def _store(machine: PlainMachine, slot: int) -> None:
    floor = machine.marks[-1] if machine.marks else 0
    if len(machine.stack) <= floor:
        raise DumpError("the pickle stores a value that is not there")
    if len(machine.memo) >= MAX_MEMO:
        raise DumpError(f"refused: the pickle stores more than {MAX_MEMO:,} values")
    machine.memo[slot] = machine.stack[-1]


def _put(width: int) -> Action:
    def store(machine: PlainMachine, byte: int) -> int:
        _store(machine, machine.unsigned(byte + 1, width))
        return byte + 1 + width

    return store


def _memoize(machine: PlainMachine, byte: int) -> int:
    _store(machine, len(machine.memo))
    return byte + 1


def _long_get(machine: PlainMachine, byte: int) -> int:
    machine.stack.append(machine.memo[machine.unsigned(byte + 1, 4)])
    return byte + 5


_ACTIONS: list[Action] = [_refuse] * 256
for _code, _action in {
    b"\x80": _proto,
    b"\x95": _frame,
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b")": _constant(()),
    b"M": _integer(2, signed=False),
    b"J": _integer(4, signed=True),
    b"\x8a": _long(1),
    b"\x8b": _long(4),
    b"G": _float,
    b"X": _text(4),
    b"\x8c": _text(1),
    b"\x8d": _text(8),
    b"B": _bytes(4),
    b"C": _bytes(1),
    b"\x8e": _bytes(8),
    b"(": _mark,
    b"}": _empty(dict),
    b"]": _empty(list),
    b"e": _appends,
    b"a": _append,
    b"u": _setitems,
    b"s": _setitem,
    b"t": _tuple,
    b"\x85": _short_tuple(1),
    b"\x86": _short_tuple(2),
    b"\x87": _short_tuple(3),
    b"q": _put(1),
    b"r": _put(4),
    b"\x94": _memoize,
    b"j": _long_get,
}.items():
    _ACTIONS[_code[0]] = _action
