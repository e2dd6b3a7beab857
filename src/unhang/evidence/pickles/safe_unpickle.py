"""Read a pickle as plain containers only: dict, list, tuple, str, bytes, int, float, bool, None.

A pickle is a program. This runs the opcodes that build plain values and refuses every other one (those that import,
call, or restore objects) with its name and place, so nothing in the file can run. No length or index in the file
makes it allocate: strings are cut from what is there, and the memo is a dict.

:func:`run` is the engine; the flight-recorder reader drives it piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unhang.errors import DumpError
from unhang.evidence.pickles.plain_machine import CutShort, PlainMachine
from unhang.evidence.pickles.plain_opcodes import ACTIONS

MAX_STACK = 1 << 20
_SLICE = 1 << 20  # how far the engine runs before it looks at the height of its stack

_BININT1, _STOP = ord("K"), ord(".")
_FREQUENT = b"hK"  # most opcodes of a dump: a stored value, a small number


@dataclass(frozen=True, slots=True)
class PlainPickle:
    """What a pickle held. ``cut_at`` is the byte where a torn file ends, else None."""

    value: Any
    cut_at: int | None


def read_plain(data: bytes, on_entry: Callable[[dict[Any, Any], int], bool] | None = None) -> PlainPickle:
    """The value of the pickle ``data``; a torn one gives the containers that were open, without their last item.

    ``on_entry`` as in :class:`PlainMachine`. Raises :class:`DumpError` when the pickle asks for anything but plain
    containers, or is malformed.
    """
    machine = PlainMachine(data, on_entry=on_entry)
    try:
        run(machine, 0)
    except CutShort:
        return PlainPickle(machine.folded(), len(data))
    return PlainPickle(machine.result, None)


def run(machine: PlainMachine, byte: int, stop: int | None = None) -> int:
    """Execute from ``byte`` to the end of the pickle (or ``stop``); return the byte after the last opcode.

    Raises :class:`CutShort` at the end of the data, :class:`DumpError` for what is refused or malformed.
    """
    end = len(machine.data) if stop is None else stop
    machine.halted = False
    while byte < end and not machine.finished:
        byte = _run_slice(machine, byte, min(end, byte + _SLICE))
        if machine.halted:
            return byte
        if len(machine.stack) > MAX_STACK:
            raise DumpError(f"refused: more than {MAX_STACK:,} values are open at byte {byte}")
    if stop is None and not machine.finished:
        raise CutShort
    return byte


def _run_slice(machine: PlainMachine, byte: int, end: int) -> int:
    data, memo, push = machine.data, machine.memo, machine.stack.append  # locals: this loop is where the time goes
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
            machine.finished = True
            return byte + 1
        else:
            byte = ACTIONS[code](machine, byte)
            if machine.halted:
                return byte
    return byte
