"""What each harmless opcode of a pickle does, and the refusal of every other one.

An action gets the machine and the byte of its opcode, and returns the byte after its arguments.
"""

from __future__ import annotations

import pickletools
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from unhang.errors import DumpError
from unhang.evidence.pickles.plain_machine import CutShort, PlainMachine

MAX_DEPTH = 100
MAX_MEMO = 1 << 20
_MAX_INT_BYTES: Final = 16
_MAX_NUMBER: Final = 40
_MAX_LINE: Final = 1 << 20
_WHOLE: Final = re.compile(rb"-?\d+L?")
_MAX_INT_KEY: Final = 1 << 31  # larger ones could be chosen to collide
_NAMES = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}

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


def _string(width: int, *, text: bool) -> Action:
    def push(machine: PlainMachine, byte: int) -> int:
        start = byte + 1 + width
        size = machine.unsigned(byte + 1, width)
        value = machine.take(start, size)
        machine.stack.append(value.decode("utf-8", "replace") if text else value)
        return start + size

    return push


def _line(machine: PlainMachine, byte: int, most: int) -> tuple[bytes, int]:
    """The argument of an opcode of protocol 0, a line of at most ``most`` bytes, and the byte after it."""
    end = machine.data.find(b"\n", byte + 1, byte + 2 + most)
    if end >= 0:
        return machine.data[byte + 1 : end], end + 1
    if byte + 2 + most > len(machine.data):
        raise CutShort
    raise DumpError(f"refused: a line of more than {most:,} bytes at byte {byte}")


def _line_number(machine: PlainMachine, byte: int) -> tuple[int, int]:
    raw, after = _line(machine, byte, _MAX_NUMBER)
    if _WHOLE.fullmatch(raw) is None:
        raise DumpError(f"the pickle has an invalid number at byte {byte}")
    return int(raw.removesuffix(b"L")), after


def _line_integer(machine: PlainMachine, byte: int) -> int:
    value, after = _line_number(machine, byte)
    is_flag = machine.data[byte + 1 : after] in (b"00\n", b"01\n")
    machine.stack.append(bool(value) if is_flag else value)
    return after


def _line_float(machine: PlainMachine, byte: int) -> int:
    raw, after = _line(machine, byte, _MAX_NUMBER)
    try:
        machine.stack.append(float(raw))
    except ValueError:
        raise DumpError(f"the pickle has an invalid number at byte {byte}") from None
    return after


def _line_text(machine: PlainMachine, byte: int) -> int:
    raw, after = _line(machine, byte, _MAX_LINE)
    machine.stack.append(raw.decode("raw-unicode-escape", "replace"))
    return after


def _line_put(machine: PlainMachine, byte: int) -> int:
    slot, after = _line_number(machine, byte)
    _store(machine, slot)
    return after


def _line_get(machine: PlainMachine, byte: int) -> int:
    slot, after = _line_number(machine, byte)
    machine.stack.append(machine.memo[slot])
    return after


def _marked_list(machine: PlainMachine, byte: int) -> int:
    start = machine.pop_mark()
    machine.stack[start:] = [machine.stack[start:]]
    machine.keep(len(machine.stack[start]))
    return byte + 1


def _marked_dict(machine: PlainMachine, byte: int) -> int:
    start = machine.pop_mark()
    items = machine.stack[start:]
    if len(items) % 2:
        raise DumpError(f"the pickle has a key without a value before byte {byte}")
    _check_keys(items[::2], byte)
    machine.stack[start:] = [dict(zip(items[::2], items[1::2], strict=True))]
    machine.keep(len(items))
    return byte + 1


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
            raise DumpError(f"refused: a dictionary key that is not text before byte {byte}")


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
            raise DumpError(f"the pickle builds a tuple from nothing at byte {byte}")
        items = tuple(stack[start:])
        stack[start:] = [items]
        machine.keep(size)
        return byte + 1

    return push


def _store(machine: PlainMachine, slot: int) -> None:
    floor = machine.marks[-1] if machine.marks else 0
    if len(machine.stack) <= floor:
        raise DumpError("the pickle stores a value that does not exist")
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


ACTIONS: Final[list[Action]] = [_refuse] * 256
"""What each opcode does; whatever is not listed below is refused."""
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
    b"X": _string(4, text=True),
    b"\x8c": _string(1, text=True),
    b"\x8d": _string(8, text=True),
    b"B": _string(4, text=False),
    b"C": _string(1, text=False),
    b"\x8e": _string(8, text=False),
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
    # protocol 0
    b"I": _line_integer,
    b"L": _line_integer,
    b"F": _line_float,
    b"V": _line_text,
    b"p": _line_put,
    b"g": _line_get,
    b"l": _marked_list,
    b"d": _marked_dict,
}.items():
    ACTIONS[_code[0]] = _action
