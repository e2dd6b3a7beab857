"""Of which version the tables are, and how they come to the present one. Alembic is loaded only where they have to."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from sqlalchemy import Connection, inspect, text

from unhang.history.tables import HEAD, VERSION_TABLE

__all__ = ["HEAD", "migrate", "readable", "version_of", "wait_for_turn"]
LAST_WITHOUT_ALEMBIC = 3
_TURN = 0x756E68616E67
"""PostgreSQL's number of the lock that whoever migrates holds: "unhang"."""


def version_of(connection: Connection) -> str:
    """The last migration that the tables have seen, an empty text where there are none."""
    if inspect(connection).has_table(VERSION_TABLE):
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - ours
        return str(found or "")
    if connection.dialect.name != "sqlite":
        return ""
    number = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    return f"{number:04}" if number else ""


def wait_for_turn(connection: Connection) -> None:
    """Hold PostgreSQL's lock until the end of the transaction; the limit for locks holds here too."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})


def readable(file: sqlite3.Connection) -> sqlite3.Connection:
    """``file``, or a copy in memory where it is of an older version: that one may grow, the file stays as it is."""
    there = file.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (VERSION_TABLE,)).fetchone()
    if there and file.execute(f"SELECT 1 FROM {VERSION_TABLE} WHERE version_num >= ?", (HEAD,)).fetchone():  # noqa: S608
        return file
    (number,) = file.execute("PRAGMA user_version").fetchone()
    if not there and not 0 < number <= LAST_WITHOUT_ALEMBIC:
        return file
    with closing(file):
        copy = sqlite3.connect(":memory:", isolation_level=None)
        file.backup(copy)
    return copy


def migrate(connection: Connection) -> None:
    """Bring the tables to the present version, in the transaction that is open.

    Raises:
        ValueError: the migrations do not fit.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "unhang.history:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    found = version_of(connection)
    try:
        if found and not inspect(connection).has_table(VERSION_TABLE):
            command.stamp(config, found)  # SQLite noted its version elsewhere before
        command.upgrade(config, "head")
    except CommandError as error:
        raise ValueError(str(error)) from error
