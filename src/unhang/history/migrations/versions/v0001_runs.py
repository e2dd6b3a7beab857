"""Runs, their verdicts, and the hosts and cards these named (user_version 1 of SQLite)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SECONDS: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _run() -> sa.Column[int]:
    return sa.Column("run", _NUMBER, sa.ForeignKey("runs.number", ondelete="CASCADE"), nullable=False)


def upgrade() -> None:
    """The first tables."""
    op.create_table(
        "runs",
        sa.Column("number", _NUMBER, primary_key=True),
        *_texts("folder", "command", "cwd", "program"),
        sa.Column("started_s", _SECONDS, nullable=False),
        sa.Column("ended_s", _SECONDS, nullable=False),
        *_texts("outcome", "hosts"),
        sa.Column("world_size", sa.Integer),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("step_s", _SECONDS),
        *_texts("settings"),
        sqlite_autoincrement=True,
    )
    words = ("cause", "certainty", "status", "ranks", "nodes", "cards", "place", "sentence")
    op.create_table("verdicts", _run(), *_texts(*words))
    op.create_table("guilty", _run(), *_texts("kind", "name", "cause"))
    op.create_index("guilty_by_name", "guilty", ["kind", "name"])
    op.create_index("verdicts_by_run", "verdicts", ["run"])
