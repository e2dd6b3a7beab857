"""Who took part in a run, named or not: only then a number of runs says anything. And an id for each record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SECONDS: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
_NAMED = sa.text("cause IS NOT NULL")


def upgrade() -> None:
    """``guilty`` becomes ``took_part``; an older unhang sees by ``user_version`` that it is none of its own."""
    op.add_column("runs", sa.Column("id", sa.Text))
    op.create_index("runs_by_id", "runs", ["id"], unique=True)
    op.create_index("runs_by_program", "runs", ["program", "number"])
    op.create_index("runs_by_end", "runs", ["ended_s"])
    op.add_column("verdicts", sa.Column("position", sa.Integer, nullable=False, server_default="0"))
    took_part = op.create_table(
        "took_part",
        sa.Column("run", _NUMBER, sa.ForeignKey("runs.number", ondelete="CASCADE"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "name", "host")),
        sa.Column("cause", sa.Text),
        sa.Column("ended_s", _SECONDS, nullable=False),
        sa.PrimaryKeyConstraint("run", "kind", "name"),
    )
    connection = op.get_bind()
    rows = list(_rows(connection))
    if rows:
        connection.execute(sa.insert(took_part), rows)
    op.create_index("took_part_by_name", "took_part", ["kind", "name", "ended_s"])
    op.create_index(
        *("took_part_named", "took_part", ["kind", "name", "ended_s"]), sqlite_where=_NAMED, postgresql_where=_NAMED
    )
    op.drop_table("guilty")
    if connection.dialect.name == "sqlite":
        op.execute("UPDATE verdicts SET position = rowid")
        op.execute("PRAGMA user_version = 4")


def _rows(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """Hosts of every run, and what was named."""
    causes: dict[int, dict[tuple[str, str], str]] = {}
    for run, kind, name, cause in connection.execute(sa.text("SELECT run, kind, name, cause FROM guilty")):
        causes.setdefault(run, {}).setdefault((kind, name), cause)
    for number, ended_s, hosts in connection.execute(sa.text("SELECT number, ended_s, hosts FROM runs")):
        named = causes.get(number, {})
        for kind, name in {*named, *(("host", str(host)) for host in _listed(hosts))}:
            host = name if kind == "host" else name.partition(" ")[0] if " " in name else ""
            yield {
                "run": number,
                "kind": kind,
                "name": name,
                "host": host,
                "cause": named.get((kind, name)),
                "ended_s": ended_s,
            }


def _listed(hosts: str) -> list[Any]:
    """What somebody else wrote into the file stays what it is; it is refused when it is read."""
    try:
        found = json.loads(hosts)
    except ValueError:
        return []
    return found if isinstance(found, list) else []
