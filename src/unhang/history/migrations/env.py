"""Run by Alembic alone: the migrations on a connection that is given, in its transaction."""

from __future__ import annotations

from alembic import context

from unhang.history.tables import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
