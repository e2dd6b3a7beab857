"""How the tables of the history grew: Alembic's environment, and a migration a version."""
