"""Where the history lies: an SQLite file of the user, or a PostgreSQL database that a cluster shares."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unhang.errors import UsageError

HISTORY = "UNHANG_HISTORY"
_SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """``folder``: the user's state folder, for the SQLite file and for runs that were not sent yet.

    ``url``: of a PostgreSQL database, as SQLAlchemy reads it; empty for SQLite. It may hold a password: never shown.
    """

    folder: Path
    url: str = field(default="", repr=False)

    @property
    def file(self) -> Path:
        """The SQLite file, where there is no ``url``."""
        return self.folder / "history.sqlite3"

    @property
    def unsent(self) -> Path:
        """The folder of runs that this place has not taken yet."""
        return self.folder / "unsent" / (hashlib.sha256(self.url.encode()).hexdigest()[:16] if self.url else "sqlite")


def history_place(environment: Mapping[str, str], named: str = "") -> HistoryPlace:
    """The history that ``named`` or ``UNHANG_HISTORY`` names; by default SQLite in ``$XDG_STATE_HOME/unhang``.

    Raises:
        UsageError: what names it is no address of a PostgreSQL database.
    """
    state = environment.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path(environment.get("HOME", "/")) / ".local" / "state"
    url = named or environment.get(HISTORY, "")
    return HistoryPlace(home / "unhang", _checked(url) if url else "")


def _checked(url: str) -> str:
    scheme = next((scheme for scheme in _SCHEMES if url.startswith(scheme)), None)
    if scheme is None:
        raise UsageError(
            "the history is no address of a PostgreSQL database",  # not repeated: it may hold a password
            next_step="write postgresql://USER@HOST/DATABASE, or leave it out for SQLite",
        )
    if url.count("@") > 1:
        raise UsageError(
            "the address of the history has more than one @", next_step="write an @ of the password as %40, a / as %2F"
        )
    return "postgresql+psycopg://" + url.removeprefix(scheme)
