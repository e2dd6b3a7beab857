"""The tables of the history, as the last migration leaves them; the same in SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

HEAD = "0004"
"""The last migration in ``migrations/versions``; later ones have higher numbers."""
VERSION_TABLE = "unhang_version"
TABLES = MetaData()
NUMBER: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
SECONDS: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")
NAMED = text("cause IS NOT NULL")


def _run() -> Column[int]:
    return Column("run", NUMBER, ForeignKey("runs.number", ondelete="CASCADE"), nullable=False)


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


RUNS = Table(
    "runs",
    TABLES,
    Column("number", NUMBER, primary_key=True),
    *_texts("folder", "command", "cwd", "program"),
    Column("started_s", SECONDS, nullable=False),
    Column("ended_s", SECONDS, nullable=False),
    *_texts("outcome", "hosts"),
    Column("world_size", Integer),
    Column("steps", Integer, nullable=False),
    Column("step_s", SECONDS),
    *_texts("settings"),
    Column("id", Text),  # of the record, made where the run ended: one that is sent twice is kept once
    Index("runs_by_id", "id", unique=True),
    Index("runs_by_program", "program", "number"),
    Index("runs_by_end", "ended_s"),
    sqlite_autoincrement=True,
)
VERDICTS = Table(
    "verdicts",
    TABLES,
    _run(),
    *_texts("cause", "certainty", "status", "ranks", "nodes", "cards", "place", "sentence"),
    Column("parts", Text),
    Column("position", Integer, nullable=False, server_default="0"),
    Index("verdicts_by_run", "run"),
)
"""``position``: among those of the run, the last verdict first."""
TOOK_PART = Table(
    "took_part",
    TABLES,
    _run(),
    *_texts("kind", "name", "host"),
    Column("cause", Text),
    Column("ended_s", SECONDS, nullable=False),
    PrimaryKeyConstraint("run", "kind", "name"),
    Index("took_part_by_name", "kind", "name", "ended_s"),
    Index("took_part_named", "kind", "name", "ended_s", sqlite_where=NAMED, postgresql_where=NAMED),
)
"""Hosts and images of a run, and cards that its verdicts named. ``cause``: for which they named it; NULL where they did
not. ``host``: in which a card is."""
NEEDED = Table("needed", TABLES, *_texts("host", "setting", "how"), PrimaryKeyConstraint("host", "setting"))
