"""Settings that machines were seen to need (user_version 3 of SQLite)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """One table."""
    op.create_table(
        "needed",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("host", "setting", "how")),
        sa.PrimaryKeyConstraint("host", "setting"),
    )
