"""Tiny real images and tables that name them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path


def png(number: int, *, side: int = 4) -> bytes:
    """A real PNG whose first pixel says ``number``."""
    rows = b"".join(b"\0" + bytes([number % 256, number // 256 % 256, 7] * side) for _ in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_table(folder: Path, count: int, *, broken: bytes = b"", missing: frozenset[int] = frozenset()) -> Path:
    """``data.csv`` as OpenCLIP reads it, with ``count`` rows and the lines ``broken`` at its end."""
    (folder / "images").mkdir(parents=True)
    lines = ["filepath\ttitle"]
    for number in range(count):
        if number not in missing:
            (folder / "images" / f"{number}.png").write_bytes(png(number))
        lines.append(f"images/{number}.png\tpicture {number}")
    table = folder / "data.csv"
    table.write_bytes("\n".join(lines).encode() + b"\n" + broken)
    return table
