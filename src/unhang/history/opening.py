"""A connection to the history, its tables up to date: Alembic is loaded only where they have to grow.

Every wait for the other side has a limit.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from unhang.errors import MissingExtra, UnhangError
from unhang.history.place import HistoryPlace
from unhang.history.tables import HEAD, TABLES, VERSION_TABLE

LIMIT_S = 10.0
CONNECT_S = 2
"""libpq takes no less."""
_LAST_WITHOUT_ALEMBIC = 3
_TURN = 0x756E68616E67
"""PostgreSQL's number of the lock that whoever migrates holds: "unhang"."""
_BEGIN = "begin"
"""How SQLite's transactions begin."""


class HistoryError(UnhangError):
    """The history cannot be read or written."""


@contextmanager
def open_connection(place: HistoryPlace, *, to_write: bool, limit_s: float = LIMIT_S) -> Iterator[Connection]:
    """The database at ``place``. Where there is none it is made ``to_write``, and empty otherwise.

    Args:
        limit_s: for a lock that another process holds, and for one statement of PostgreSQL.

    Raises:
        HistoryError: it is damaged, newer than this unhang, away, locked for too long, or not ours to read or write.
        MissingExtra: PostgreSQL is asked for, and its driver is not installed.
    """
    try:
        engine = _postgresql(place, to_write, limit_s) if place.url else _sqlite(place.file, to_write, limit_s)
        with engine.connect() as connection:
            _bring_up_to_date(connection, place, to_write=to_write)
            yield connection
    except (SQLAlchemyError, sqlite3.Error, OSError, ValueError, msgspec.MsgspecError) as error:
        raise HistoryError(
            f"the history at {shown(place)} cannot be {'written' if to_write else 'read'}: {_reason(error, place)}",
            next_step="see whether the server answers, or unset UNHANG_HISTORY to use SQLite"
            if place.url
            else "move the file away to start a new one",
        ) from error


def shown(place: HistoryPlace) -> str:
    """Without the password, and without options, of which one may be a password too."""
    if not place.url:
        return str(place.file)
    with suppress(SQLAlchemyError):
        url = make_url(place.url)
        return URL.create("postgresql", url.username, None, url.host, url.port, url.database).render_as_string()
    return "an address that cannot be read"


def _reason(error: Exception, place: HistoryPlace) -> str:
    said = str(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error).strip()
    first = said.splitlines()[0] if said else type(error).__name__
    with suppress(SQLAlchemyError):
        secret = str(make_url(place.url).password or "") if place.url else ""
        return first.replace(secret, "***") if len(secret) > 3 else first  # a shorter one is in any word
    return type(error).__name__


def _postgresql(place: HistoryPlace, to_write: bool, limit_s: float) -> Engine:
    """One connection, used by one process for a moment."""
    try:
        engine = create_engine(
            place.url,
            poolclass=NullPool,
            hide_parameters=True,
            use_native_hstore=False,
            connect_args={"connect_timeout": CONNECT_S, "application_name": "unhang"},
        )
    except ImportError as error:
        needed = "a history in PostgreSQL needs psycopg"
        raise MissingExtra(needed, next_step="pip install 'psycopg[binary]'") from error
    limits = {
        "statement_timeout": f"{limit_s * 1000:.0f}",
        "lock_timeout": f"{limit_s * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{LIMIT_S * 1000:.0f}",  # of a machine that is gone
        "transaction_read_only": "off" if to_write else "on",
    }
    asked = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in limits.items())
    # of the transaction, not of the connection: a pooler in between hands connections on
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(f"SELECT {asked}"))
    return engine


def _sqlite(file: Path, to_write: bool, limit_s: float) -> Engine:
    there = file.exists() and (to_write or file.stat().st_size > 0)  # a killed writer leaves an empty file

    def connect() -> sqlite3.Connection:
        if not there and not to_write:
            return sqlite3.connect(":memory:", isolation_level=None)
        if not there:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        where = f"{file.absolute().as_uri()}?mode={'rw' if to_write else 'ro'}"
        connection = sqlite3.connect(where, uri=True, timeout=min(limit_s, LIMIT_S), isolation_level=None)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            return connection if to_write else _readable(connection)
        except BaseException:
            connection.close()
            raise

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(connection.info.get(_BEGIN, "BEGIN")))
    return engine


def _bring_up_to_date(connection: Connection, place: HistoryPlace, *, to_write: bool) -> None:
    """Tables of an older version grow when they are written to; reading leaves them as they are."""
    found = _version_of(connection)
    if found > HEAD:
        raise HistoryError(
            f"the history at {shown(place)} was written by a newer unhang (its tables are of version "
            f"{found.lstrip('0')}, this one knows version {HEAD.lstrip('0')})",
            next_step="update unhang, or move the file away to start a new one",
        )
    if to_write and not place.url:  # looking has held nobody up; from now on the lock is taken at once
        connection.rollback()
        connection.info[_BEGIN] = "BEGIN IMMEDIATE"
    if found == HEAD:
        return
    if place.url and not to_write:
        raise HistoryError(
            f"the history at {shown(place)} has no tables of this version yet",
            next_step="the first run that is recorded makes them, with a role that may create tables",
        )
    if to_write:
        _migrate(connection, place)
    elif not found:
        TABLES.create_all(connection)
    else:
        _grow(connection)  # the copy in memory


def _migrate(connection: Connection, place: HistoryPlace) -> None:
    """In one transaction: of two that come at once one does it."""
    import alembic.command  # noqa: F401 - takes its time: not while others wait

    if place.url:
        _wait_for_turn(connection)
    found = _version_of(connection)  # another may have been faster
    if found and found < HEAD and not place.url:
        _keep_copy(place.file)
    if found < HEAD:
        _grow(connection)
    connection.commit()


def copies(file: Path) -> list[Path]:
    """Copies of the SQLite file from before a migration."""
    return sorted(file.parent.glob(f"{file.name}.before-*"))


def _keep_copy(file: Path) -> None:
    """As it is now, beside it, private too."""
    copy = file.with_name(f"{file.name}.before-{int(HEAD)}")
    part = copy.with_name(f"{copy.name}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
    with (
        closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=LIMIT_S)) as source,
        closing(sqlite3.connect(part)) as target,
    ):
        source.backup(target)
    part.replace(copy)


def _version_of(connection: Connection) -> str:
    """The last migration that the tables have seen, an empty text where there are none."""
    if inspect(connection).has_table(VERSION_TABLE):
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - ours
        return str(found or "")
    if connection.dialect.name != "sqlite":
        return ""
    number = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    return f"{number:04}" if number else ""


def _wait_for_turn(connection: Connection) -> None:
    """Hold PostgreSQL's lock until the end of the transaction; the limit for locks holds here too."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})


def _readable(file: sqlite3.Connection) -> sqlite3.Connection:
    """``file``, or a copy in memory where it is of an older version: that one may grow, the file stays as it is."""
    there = file.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (VERSION_TABLE,)).fetchone()
    if there and file.execute(f"SELECT 1 FROM {VERSION_TABLE} WHERE version_num >= ?", (HEAD,)).fetchone():  # noqa: S608
        return file
    (number,) = file.execute("PRAGMA user_version").fetchone()
    if not there and not 0 < number <= _LAST_WITHOUT_ALEMBIC:
        return file
    with closing(file):
        copy = sqlite3.connect(":memory:", isolation_level=None)
        file.backup(copy)
    return copy


def _grow(connection: Connection) -> None:
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
    found = _version_of(connection)
    try:
        if found and not inspect(connection).has_table(VERSION_TABLE):
            command.stamp(config, found)  # SQLite noted its version elsewhere before
        command.upgrade(config, "head")
    except CommandError as error:
        raise ValueError(str(error)) from error
