"""What the history holds, and how runs come into it: the same statements for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, or_, select
from sqlalchemy.exc import IntegrityError

from unhang.history.opening import LIMIT_S, HistoryError, copies, open_connection
from unhang.history.place import HistoryPlace
from unhang.history.run import GOOD, STALLED, NeededSetting, PastRun, RunFinding, day_of, took_part, workarounds_of
from unhang.history.suspects import Suspect, find_suspects
from unhang.history.tables import NEEDED, RUNS, TOOK_PART, VERDICTS
from unhang.history.unsent import forget_unsent
from unhang.wire.documents.earlier_verdicts import EarlierSuspect

__all__ = ["MAX_RUNS", "History", "HistoryError", "open_history"]
MAX_RUNS = 5_000
"""Older ones are forgotten, of a file that grows on its user's disk."""
MAX_NAMED = 1_000
DAY_S = 86_400.0


@contextmanager
def open_history(place: HistoryPlace, *, to_write: bool = False, limit_s: float = LIMIT_S) -> Iterator[History]:
    """The history at ``place``; one that is not there yet is made where ``to_write``, and empty otherwise.

    Raises:
        HistoryError: as :func:`unhang.history.opening.open_connection`.
        MissingExtra: PostgreSQL is asked for, and its driver is not installed.
    """
    with open_connection(place, to_write=to_write, limit_s=limit_s) as connection:
        yield History(connection, place)


class History:
    """An open history. Use it with ``with open_history(place) as history``."""

    def __init__(self, connection: Connection, place: HistoryPlace) -> None:
        self._connection, self._place = connection, place

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            yield self._connection
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    def add(self, run: PastRun, record: str | None = None) -> int | None:
        """Keep ``run``; returns its number. ``record``: None, or its id: kept before under that, it returns None."""
        try:
            with self._transaction() as write:
                number = self._insert(write, run, record)
                if not self._place.url:
                    write.execute(delete(RUNS).where(RUNS.c.number <= number - MAX_RUNS))
                if run.outcome == GOOD:
                    self._keep_repair(write, replace(run, number=number))
        except IntegrityError:
            if record is None or self._one(RUNS.c.id == record) is None:
                raise
            return None
        return number

    def _insert(self, write: Connection, run: PastRun, record: str | None) -> int:
        names = {column.name for column in RUNS.c} & set(PastRun.__slots__) - {"number"}
        values = {name: _storable(getattr(run, name)) for name in names}
        added = write.execute(insert(RUNS).values(**values, program=_storable(run.program), id=record))
        assert added.inserted_primary_key is not None
        number = int(added.inserted_primary_key[0])
        found = [_verdict_row(number, at, told) for at, told in enumerate(run.verdicts)]
        if found:
            write.execute(insert(VERDICTS), found)
        there = [
            {"run": number, "ended_s": run.ended_s, **{name: _storable(value) for name, value in asdict(one).items()}}
            for one in took_part(run)
        ]
        if there:
            write.execute(insert(TOOK_PART), there)
        return number

    def _keep_repair(self, write: Connection, run: PastRun) -> None:
        """What was set anew after a stall that it gets around, where the job then ended well."""
        stalled = self._one(and_(RUNS.c.program == _storable(run.program), RUNS.c.number < run.number))
        if stalled is None or stalled.outcome != STALLED:
            return
        causes, was = {told.cause for told in stalled.verdicts}, workarounds_of(stalled)
        new = [one for one, cause in workarounds_of(run).items() if cause in causes and one not in was]
        how = f"run {run.number} {day_of(run.ended_s)}"
        _need(write, (NeededSetting(host, one, how) for host in run.hosts for one in new))

    def keep_needed(self, settings: Iterable[NeededSetting]) -> None:
        """Remember what machines were seen to need."""
        with self._transaction() as write:
            _need(write, settings)

    def needed(self, host: str = "") -> list[NeededSetting]:
        """Settings that machines were seen to need; of one host where asked."""
        asked = select(NEEDED).order_by(NEEDED.c.host, NEEDED.c.setting)
        rows = self._connection.execute(asked.where(NEEDED.c.host == host) if host else asked)
        return [NeededSetting(**row) for row in rows.mappings()]

    def forget_needed(self, name: str, host: str = "") -> int:
        """Forget what is kept of variable ``name`` (or of one value of it); returns how many rows there were."""
        head = f"{name}="
        named = or_(NEEDED.c.setting == name, func.substr(NEEDED.c.setting, 1, len(head)) == head)
        with self._transaction() as write:
            asked = delete(NEEDED).where(named)
            return write.execute(asked.where(NEEDED.c.host == host) if host else asked).rowcount

    def runs(self, *, limit: int = 20, host: str = "") -> list[PastRun]:
        """The latest runs, newest first; of one host where asked."""
        there = exists().where(TOOK_PART.c.run == RUNS.c.number, TOOK_PART.c.kind == "host", TOOK_PART.c.name == host)
        return self._found(there if host else None, limit)

    def run(self, number: int) -> PastRun | None:
        """The run with this number; None when there is none."""
        return self._one(RUNS.c.number == number)

    def last_good(self, run: PastRun) -> PastRun | None:
        """The newest run of the same job before ``run`` that ended well; None when there is none."""
        same = RUNS.c.program == _storable(run.program)
        return self._one(and_(same, RUNS.c.outcome == GOOD, RUNS.c.number < run.number))

    def _one(self, which: ColumnElement[bool]) -> PastRun | None:
        return next(iter(self._found(which, 1)), None)

    def _found(self, which: ColumnElement[bool] | None, limit: int) -> list[PastRun]:
        asked = select(RUNS).order_by(RUNS.c.number.desc()).limit(limit)
        found = self._connection.execute(asked if which is None else asked.where(which))
        rows = found.mappings().all()
        verdicts: dict[int, list[dict[str, Any]]] = {row["number"]: [] for row in rows}
        told = select(VERDICTS).where(VERDICTS.c.run.in_(verdicts)).order_by(VERDICTS.c.position)
        for one in self._connection.execute(told).mappings():
            verdicts[one["run"]].append(_read(dict(one), RunFinding, ("ranks", "nodes", "cards", "parts")))
        return [
            msgspec.convert({**_read(dict(row), PastRun, ("hosts",)), "verdicts": verdicts[row["number"]]}, PastRun)
            for row in rows
        ]

    def guilty(self) -> list[EarlierSuspect]:
        """Hosts and cards that verdicts ever named, those of most runs first."""
        found = (one for one in find_suspects(self._connection, 0.0, MAX_NAMED) if one.kind in ("host", "card"))
        names = EarlierSuspect.__struct_fields__
        return [msgspec.convert({name: getattr(one, name) for name in names}, EarlierSuspect) for one in found]

    def suspects(self, days: float) -> list[Suspect]:
        """Hosts, cards and images that verdicts of the last ``days`` named, each with the chance that it is chance."""
        return find_suspects(self._connection, time.time() - days * DAY_S, MAX_NAMED)

    def forget(self) -> int:
        """Forget every run and what machines need; returns how many runs there were."""
        with self._transaction() as write:
            count = write.execute(select(func.count()).select_from(RUNS)).scalar_one()
            for table in (VERDICTS, TOOK_PART, RUNS, NEEDED):
                write.execute(delete(table))
        forget_unsent(self._place)
        self._shrink()
        return count

    def forget_before(self, time_s: float) -> int:
        """Forget runs that ended before ``time_s`` (since the epoch); returns how many there were."""
        with self._transaction() as write:
            count = write.execute(delete(RUNS).where(RUNS.c.ended_s < time_s)).rowcount
        self._shrink()
        return count

    def _shrink(self) -> None:
        """What is forgotten leaves the disk, and the copies of SQLite's file from before it."""
        if self._place.url:
            return
        for copy in copies(self._place.file):
            copy.unlink(missing_ok=True)
        raw = self._connection.connection.driver_connection
        assert raw is not None
        raw.execute("VACUUM")


def _need(write: Connection, settings: Iterable[NeededSetting]) -> None:
    for one in settings:
        write.execute(delete(NEEDED).where(NEEDED.c.host == one.host, NEEDED.c.setting == one.setting))
        write.execute(insert(NEEDED).values(**{name: _storable(value) for name, value in asdict(one).items()}))


def _verdict_row(number: int, position: int, told: RunFinding) -> dict[str, Any]:
    values = {name: _storable(getattr(told, name)) for name in RunFinding.__slots__}
    return {**values, "run": number, "position": position}


def _storable(value: Any) -> Any:
    """As a column takes it: lists as JSON, and no sign that is none in UTF-8 or that PostgreSQL refuses."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = json.dumps(value)
    elif isinstance(value, Mapping):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return value


def _read(row: Mapping[str, Any], kind: type[PastRun | RunFinding], lists: Iterable[str]) -> dict[str, Any]:
    """The fields of ``kind``; the database may have been written by anybody."""
    values = {name: row[name] for name in kind.__slots__ if name in row}
    return values | {name: msgspec.json.decode(values[name]) for name in lists if isinstance(values[name], str)}
