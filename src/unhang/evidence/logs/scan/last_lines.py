"""The last words of everybody in some blocks of a large log: what is read where trouble begins behind them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEAD = re.compile(rb"[^\s\d\[][^\s]{0,80}|\[[A-Za-z][^\s\]]{0,80}\]|\d{1,6}:(?=\s)")
"""What stands in front of a line for its process: ``[rank3]``, ``pod-3``, ``3:``; not a time."""
_NAMED = re.compile(rb"(?:[Rr]ank|GPU|gpu)\W{0,3}(\d{1,6})")
_LOOK_AT = 200


def last_lines_of_speakers(blocks: Sequence[bytes]) -> list[list[tuple[int, int]]]:
    """Of every block, where the last line and the last step of those stand who speak in none behind it, in order."""
    seen: set[tuple[bytes, bool]] = set()
    return [_new_speakers(data, seen) for data in reversed(blocks)][::-1]


def _new_speakers(data: bytes, seen: set[tuple[bytes, bool]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    stop = len(data)
    while stop > 0:
        start = data.rfind(b"\n", 0, stop - 1) + 1
        line = data[start : min(stop, start + _LOOK_AT)]
        key = (_speaker_key(line), b"tep" in line or b"%|" in line or b"iter" in line or b"poch" in line)
        if key not in seen:
            seen.add(key)
            found.append((start, stop))
        stop = start
    found.reverse()
    return found


def _speaker_key(line: bytes) -> bytes:
    head = _HEAD.match(line)
    if head is not None and b"rank" in head[0]:
        return head[0]
    named = _NAMED.search(line)
    return (head[0] if head is not None else b"") + (named[0] if named is not None else b"")
