"""The same tests for both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.postgres_server import PostgresServer, missing
from unhang.history.place import HistoryPlace, history_place


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of a process; each has a database of its own."""
    if reason := missing():
        pytest.skip(reason)
    server = PostgresServer()
    yield server
    server.end()


@pytest.fixture
def shared(tmp_path: Path, server: PostgresServer) -> HistoryPlace:
    """A new history in PostgreSQL."""
    return history_place({"XDG_STATE_HOME": str(tmp_path)}, server.url(server.new_database()))


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> HistoryPlace:
    """A new history of either kind; ``XDG_STATE_HOME`` is ``tmp_path``."""
    if request.param == "postgresql":
        return request.getfixturevalue("shared")  # type: ignore[no-any-return]
    return history_place({"XDG_STATE_HOME": str(tmp_path)})


@pytest.fixture
def named(place: HistoryPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryPlace:
    """The same, and every command finds it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("UNHANG_HISTORY", place.url)
    return place
