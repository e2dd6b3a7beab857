"""How the sentence of a verdict is carried into another language (user_version 2 of SQLite)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """One column."""
    op.add_column("verdicts", sa.Column("parts", sa.Text))
