"""Every error unhang raises on purpose.

UnhangError                   one plain sentence for the person, exit code 2
├── UsageError                what was asked for cannot be done as asked
├── EvidenceError             a source cannot be read
│   ├── DumpError             a flight-recorder dump is torn, hostile or of an unknown shape
│   └── ArchiveError          an archive is damaged, too large, or tries to leave its folder
├── KnowledgeError            a data file of ours breaks its own contract
└── MissingExtra              an optional package is needed; says what to install
"""

from __future__ import annotations


class UnhangError(Exception):
    """Base of the tree. ``str(error)`` is one sentence; ``next_step`` is a command or an empty string."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class UsageError(UnhangError):
    """The arguments ask for something that does not exist or cannot be done."""


class EvidenceError(UnhangError):
    """A source of evidence cannot be read."""


class DumpError(EvidenceError):
    """A flight-recorder dump is torn, hostile or of an unknown shape."""


class ArchiveError(EvidenceError):
    """An archive is damaged, larger than allowed, or names paths outside its folder."""


class KnowledgeError(UnhangError):
    """A knowledge row breaks its own contract (our mistake, not the user's)."""


class MissingExtra(UnhangError):
    """An optional package is needed; the message says which and how to install it."""
