"""Every error unhang raises on purpose.

UnhangError                   one plain sentence for the person, exit code 2
├── UsageError                what was asked for cannot be done as asked
├── EvidenceError             a source cannot be read
│   ├── DumpError             a flight-recorder dump is torn, hostile or of an unknown shape
│   ├── ArchiveError          an archive is damaged, too large, or tries to leave its folder
│   └── ObjectError           an object behind a URL cannot be read
├── KnowledgeError            a data file of ours breaks its own contract
├── GuardError                a guard stops a rank that would have waited for nothing
│   ├── RanksMissing          ranks did not come where all have to
│   ├── RankFailed            another rank failed at what this one waits for
│   ├── RanksDiffer           ranks hold different values, or go on differently, where all have to be the same
│   └── StoreLost             the store the ranks meet on is gone, or its process is stopped
├── CouldNotLook              something that a question needs could not be found out
└── MissingExtra              an optional package is needed; says what to install

:func:`describe_failure` puts an error that nobody foresaw into words, where one part fails and the rest goes on.
"""

from __future__ import annotations

_SHOWN = 100


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


class ObjectError(EvidenceError):
    """An object behind a URL cannot be read, or not further; the message is the reason, as a clause."""


class KnowledgeError(UnhangError):
    """A knowledge row breaks its own contract (our mistake, not the user's)."""


class CouldNotLook(UnhangError):
    """Something that a question needs could not be found out: whoever asks could not look either."""


class MissingExtra(UnhangError):
    """An optional package is needed; the message says which and how to install it."""


class GuardError(UnhangError):
    """A guard stops a rank that would otherwise have waited for nothing. ``words``: its message without ``statement``,
    the last line, which says the same for ``unhang diagnose`` (``records/guard_statement.py``)."""

    def __init__(self, message: str, *, statement: str = "", next_step: str = "") -> None:
        super().__init__(f"{message}\n{statement}" if statement else message, next_step=next_step)
        self.words = message


class RanksMissing(GuardError):
    """Ranks did not come where all have to. ``stacks``: what they were doing, as far as they could be asked."""

    def __init__(self, message: str, *, ranks: tuple[int, ...], stacks: dict[int, str], statement: str = "") -> None:
        super().__init__(message, statement=statement)
        self.ranks = ranks
        self.stacks = stacks


class RankFailed(GuardError):
    """Another rank failed at what this one waits for. ``reason``: what that rank said."""

    def __init__(self, message: str, *, rank: int, reason: str, statement: str = "") -> None:
        super().__init__(message, statement=statement)
        self.rank = rank
        self.reason = reason


class RanksDiffer(GuardError):
    """Ranks hold different values, or go on differently. ``ranks``: those that differ from most, or all where none are
    most; ``place``: the first difference as Python would write it (``['train'][17]``), or an empty string."""

    def __init__(self, message: str, *, ranks: tuple[int, ...], place: str = "", statement: str = "") -> None:
        super().__init__(message, statement=statement)
        self.ranks = ranks
        self.place = place


class StoreLost(GuardError):
    """The store the ranks meet on is gone, or the process that keeps it is stopped."""


def describe_failure(error: Exception) -> str:
    """What failed and where in our code (``KeyError in reading.py:14: 1``); the traceback goes to ``--debug``."""
    if isinstance(error, UnhangError):
        return str(error)
    # imported here: this module is also imported in every process of a job that uses a guard
    import logging
    import traceback
    from pathlib import Path

    logging.getLogger("unhang").debug("a part of unhang failed", exc_info=error)
    code, line = None, 0
    for frame, number in traceback.walk_tb(error.__traceback__):
        code, line = frame.f_code, number
    where = f" in {Path(code.co_filename).name}:{line}" if code is not None else ""
    said = "".join(sign if sign.isprintable() else " " for sign in str(error)[:_SHOWN])
    return f"{type(error).__name__}{where}" + (f": {said}" if said else "")
