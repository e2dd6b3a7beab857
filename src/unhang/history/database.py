"""The history's database: SQLite, private, in the user's state folder. Every wait for its lock has a limit."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import msgspec

from unhang.errors import UnhangError
from unhang.history.run import GOOD, MACHINE_CAUSES, STALLED, NeededSetting, PastRun, RunFinding, day_of, workarounds_of
from unhang.wire.documents.earlier_verdicts import EarlierSuspect

BUSY_S = 2.0
MAX_RUNS = 5_000
"""Older ones are forgotten."""
_TABLES = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, folder TEXT NOT NULL, command TEXT NOT NULL, cwd TEXT NOT NULL,
    program TEXT NOT NULL, started_s REAL NOT NULL, ended_s REAL NOT NULL, outcome TEXT NOT NULL, hosts TEXT NOT NULL,
    world_size INTEGER, steps INTEGER NOT NULL, step_s REAL, settings TEXT NOT NULL
);
CREATE TABLE verdicts (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, cause TEXT NOT NULL, certainty TEXT NOT NULL,
    status TEXT NOT NULL, ranks TEXT NOT NULL, nodes TEXT NOT NULL, cards TEXT NOT NULL, place TEXT NOT NULL,
    sentence TEXT NOT NULL
);
CREATE TABLE guilty (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, kind TEXT NOT NULL, name TEXT NOT NULL,
    cause TEXT NOT NULL
);
CREATE INDEX guilty_by_name ON guilty (kind, name);
CREATE INDEX verdicts_by_run ON verdicts (run);
"""
_NEEDED = """
CREATE TABLE needed (
    host TEXT NOT NULL, setting TEXT NOT NULL, how TEXT NOT NULL, PRIMARY KEY (host, setting)
)
"""
_MIGRATIONS = (_TABLES, "ALTER TABLE verdicts ADD COLUMN parts TEXT", _NEEDED)
"""Each makes the tables of a version those of the next; what was released is never changed."""
SCHEMA_VERSION = len(_MIGRATIONS)


class HistoryError(UnhangError):
    """The history cannot be read or written."""


def history_path(environment: Mapping[str, str]) -> Path:
    """Where the history lies: ``$XDG_STATE_HOME/unhang/history.sqlite3``, by default below ``~/.local/state``."""
    state = environment.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path(environment.get("HOME", "/")) / ".local" / "state"
    return home / "unhang" / "history.sqlite3"


class History:
    """An open history. Use it with ``with opened(path) as history``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, run: PastRun) -> int:
        """Keep ``run``; returns its number."""
        with self._connection as write:
            row = write.execute(
                "INSERT INTO runs (folder, command, cwd, program, started_s, ended_s, outcome, hosts, world_size,"
                " steps, step_s, settings) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(run.folder, run.command, run.cwd, run.program, run.started_s, run.ended_s, run.outcome),
                    *(json.dumps(run.hosts), run.world_size, run.steps, run.step_s, run.settings),
                ),
            )
            number = int(row.lastrowid or 0)
            for told in run.verdicts:
                self._add_verdict(write, number, told)
            write.executemany("INSERT INTO guilty VALUES (?, ?, ?, ?)", sorted(_guilty(number, run.verdicts)))
            write.execute("DELETE FROM runs WHERE number <= ?", (number - MAX_RUNS,))
        if run.outcome == GOOD:
            self._keep_repair(replace(run, number=number))
        return number

    def _add_verdict(self, write: sqlite3.Connection, number: int, told: RunFinding) -> None:
        lists = (json.dumps(told.ranks), json.dumps(told.nodes), json.dumps(told.cards))
        parts = None if told.parts is None else json.dumps(told.parts, ensure_ascii=False)
        write.execute(
            "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, told.cause, told.certainty, told.status, *lists, told.place, told.sentence, parts),
        )

    def _keep_repair(self, run: PastRun) -> None:
        """What was set anew after a stall that it gets around, where the job then ended well."""
        before = self._connection.execute(
            "SELECT * FROM runs WHERE program = ? AND number < ? ORDER BY number DESC LIMIT 1",
            (run.program, run.number),
        ).fetchone()
        stalled = None if before is None or before["outcome"] != STALLED else self._run(before)
        if stalled is not None:
            causes, was = {told.cause for told in stalled.verdicts}, workarounds_of(stalled)
            new = [one for one, cause in workarounds_of(run).items() if cause in causes and one not in was]
            how = f"run {run.number} {day_of(run.ended_s)}"
            self.keep_needed(NeededSetting(host, one, how) for host in run.hosts for one in new)

    def keep_needed(self, settings: Iterable[NeededSetting]) -> None:
        """Remember what machines were seen to need."""
        with self._connection as write:
            write.executemany("INSERT OR REPLACE INTO needed VALUES (?, ?, ?)", map(astuple, settings))

    def needed(self, host: str = "") -> list[NeededSetting]:
        """Settings that machines were seen to need; of one host where asked."""
        if _version(self._connection) < SCHEMA_VERSION:
            return []  # of an older unhang, which kept none
        asked = "SELECT * FROM needed WHERE ? IN ('', host) ORDER BY host, setting"
        rows = self._connection.execute(asked, (host,))
        return [msgspec.convert(dict(row), NeededSetting) for row in rows.fetchall()]

    def forget_needed(self, name: str, host: str = "") -> int:
        """Forget what is kept of variable ``name`` (or of one value of it); returns how many rows there were."""
        named = "? IN (setting, substr(setting, 1, instr(setting, '=') - 1))"
        with self._connection as write:
            return write.execute(f"DELETE FROM needed WHERE {named} AND ? IN ('', host)", (name, host)).rowcount  # noqa: S608

    def runs(self, *, limit: int = 20, host: str = "") -> list[PastRun]:
        """The latest runs, newest first; of one host where asked."""
        rows = self._connection.execute(
            "SELECT * FROM runs WHERE ? = '' OR EXISTS"
            " (SELECT 1 FROM json_each(runs.hosts) WHERE value = ?) ORDER BY number DESC LIMIT ?",
            (host, host, limit),
        )
        return [self._run(row) for row in rows.fetchall()]

    def run(self, number: int) -> PastRun | None:
        """The run with this number; None when there is none."""
        row = self._connection.execute("SELECT * FROM runs WHERE number = ?", (number,)).fetchone()
        return None if row is None else self._run(row)

    def last_good(self, run: PastRun) -> PastRun | None:
        """The newest run of the same job before ``run`` that ended well; None when there is none."""
        row = self._connection.execute(
            "SELECT * FROM runs WHERE program = ? AND outcome = 'good' AND number < ? ORDER BY number DESC LIMIT 1",
            (run.program, run.number),
        ).fetchone()
        return None if row is None else self._run(row)

    def guilty(self) -> list[EarlierSuspect]:
        """Hosts and cards that verdicts named, those of most runs first."""
        rows = self._connection.execute(
            "SELECT kind, name, COUNT(DISTINCT run) AS times, MAX(ended_s) AS last_s, (SELECT cause FROM guilty AS g"
            " WHERE g.kind = guilty.kind AND g.name = guilty.name ORDER BY run DESC, cause LIMIT 1) AS cause"
            " FROM guilty JOIN runs ON runs.number = guilty.run"
            " GROUP BY kind, name ORDER BY times DESC, last_s DESC, name LIMIT 1000"
        )
        named = (zip(("kind", "name", "cause", "runs", "last_s"), _guilt(row), strict=True) for row in rows.fetchall())
        return [msgspec.convert(dict(values), EarlierSuspect) for values in named]

    def forget(self) -> int:
        """Forget every run and what machines need; returns how many runs there were."""
        with self._connection as write:
            (count,) = write.execute("SELECT COUNT(*) FROM runs").fetchone()
            for table in ("verdicts", "guilty", "runs", "needed"):
                write.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
        self._connection.execute("VACUUM")
        return int(count)

    def _run(self, row: sqlite3.Row) -> PastRun:
        told = self._connection.execute("SELECT * FROM verdicts WHERE run = ? ORDER BY rowid", (row["number"],))
        values = {name: row[name] for name in row.keys() if name in PastRun.__dataclass_fields__}  # noqa: SIM118 - as below
        values["hosts"] = _listed(row["hosts"])
        values["verdicts"] = [_told(one) for one in told.fetchall()]
        return msgspec.convert(values, PastRun)


def _told(row: sqlite3.Row) -> dict[str, Any]:
    names = row.keys()  # a row is searched by value otherwise
    values = {name: row[name] for name in RunFinding.__dataclass_fields__ if name in names}
    for name in ("ranks", "nodes", "cards", "parts"):
        values[name] = _listed(values.get(name))
    return values


def _guilt(row: sqlite3.Row) -> tuple[Any, ...]:
    return row["kind"], row["name"], row["cause"], row["times"], row["last_s"]


def _listed(value: Any) -> Any:
    """What a column of JSON holds; the file may have been written by anybody."""
    return msgspec.json.decode(value) if isinstance(value, str) else value


def _guilty(number: int, verdicts: Iterable[RunFinding]) -> set[tuple[int, str, str, str]]:
    """Hosts and cards of causes that stay with a machine. A host that only was there is no suspect."""
    found = set()
    for told in verdicts:
        if told.cause in MACHINE_CAUSES:
            found |= {(number, "host", node, told.cause) for node in told.nodes}
            found |= {(number, "card", card, told.cause) for card in told.cards}
    return found


@contextmanager
def open_history(path: Path, *, to_write: bool = False) -> Iterator[History]:
    """The history at ``path``; one that is not there yet is made where ``to_write``, and empty otherwise.

    Raises:
        HistoryError: it is damaged, newer than this unhang, locked for too long, or cannot be written.
    """
    try:
        with closing(_connect(path, to_write=to_write)) as connection:
            yield History(connection)
    except (sqlite3.Error, OSError, ValueError, msgspec.MsgspecError) as error:
        raise HistoryError(
            f"the history at {path} cannot be {'written' if to_write else 'read'}: {error}",
            next_step="move the file away to start a new one",
        ) from error


def _connect(path: Path, *, to_write: bool) -> sqlite3.Connection:
    there = path.exists() and (to_write or path.stat().st_size > 0)  # a killed writer leaves an empty file
    if not there and not to_write:
        connection = sqlite3.connect(":memory:")
    else:
        if not there:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        mode = "rw" if to_write else "ro"
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    try:
        _bring_up_to_date(connection, path, to_write=to_write or not there)
    except BaseException:
        connection.close()
        raise
    return connection


def _bring_up_to_date(connection: sqlite3.Connection, path: Path, *, to_write: bool) -> None:
    """Tables of an older version grow when they are written to; reading leaves them as they are."""
    version = _version(connection)
    if version > SCHEMA_VERSION:
        raise HistoryError(
            f"the history at {path} was written by a newer unhang (its tables are of version {version}, this one knows "
            f"version {SCHEMA_VERSION})",
            next_step="update unhang, or move the file away to start a new one",
        )
    if version < SCHEMA_VERSION and to_write:
        _migrate(connection)


def _migrate(connection: sqlite3.Connection) -> None:
    """In one transaction: two runs that end at once grow them once."""
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection)
    for step in _MIGRATIONS[version:]:
        for statement in filter(str.strip, step.split(";")):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {max(version, SCHEMA_VERSION)}")
    connection.commit()


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
