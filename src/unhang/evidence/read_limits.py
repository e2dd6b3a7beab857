"""How much the readers are willing to take in: hostile or runaway evidence stays bounded."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30
SKIPPED_FOLDERS = frozenset(
    (".git", ".hg", ".unhang", ".svn", "__pycache__", "node_modules", "site-packages", ".venv", ".mypy_cache")
)
"""What is never looked into."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Upper bounds of one reading. Sizes are in bytes."""

    files: int = 100_000
    """Files read in folders, all inputs together."""
    depth: int = 40
    """Folders inside folders."""
    members: int = 100_000
    """Members of one archive."""
    unpacked: int = 64 * GIB
    """What all archives together may unpack to."""
    ratio: int = 400
    """How many times its own size an archive may unpack to. Logs of one repeated line reach about 250."""
    ratio_floor: int = 256 * MIB
    """Below this an archive may unpack to any multiple of its size."""
    dump: int = 128 * MIB
    """A flight-recorder dump read whole into memory (from an archive or a pipe)."""
    text: int = 64 * MIB
    """A stack dump or manifest read whole into memory."""
    source: int = 4 * MIB
    """A source file kept as evidence."""
    sources: int = 2_000
    """Source files kept."""


DEFAULT_LIMITS = ReadLimits()
