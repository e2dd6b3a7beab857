"""A history of an older unhang is read and added to; one of a newer unhang is left alone, with a sentence."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from unhang.cli.main import main
from unhang.history.database import SCHEMA_VERSION, HistoryError, open_history
from unhang.history.run import PastRun, RunFinding
from unhang.wire.documents.earlier_verdicts import EarlierSuspect

TABLES_1 = """
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
INSERT INTO runs VALUES (7, '/runs/old', 'torchrun t.py', '/home/ml', '/home/ml t.py', 1.0, 9.0, 'stalled', '["h7"]',
    8, 100, 0.5, '{}');
INSERT INTO verdicts VALUES (7, 'gpu-hardware', 'likely', 'hang', '[3]', '["h7"]', '[]', 't.py:5', 'it failed');
INSERT INTO guilty VALUES (7, 'host', 'h7', 'gpu-hardware');
PRAGMA user_version = 1;
"""
"""As version 1 wrote it; never to be changed."""
OLD = RunFinding("gpu-hardware", "likely", "hang", (3,), ("h7",), (), "t.py:5", "it failed")
NEW = RunFinding(
    "slow-rank", "likely", "slow", (0,), ("h7",), (), "", "it is slow", {"template": "progressing", "values": {}}
)


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "unhang" / "history.sqlite3"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(TABLES_1)
    return file


def add(file: Path) -> int:
    with open_history(file, to_write=True) as history:
        return history.add(PastRun("/runs/new", "torchrun t.py", "/home/ml", 11.0, 19.0, "slow", verdicts=(NEW,)))


def shape(file: Path) -> list[tuple[object, ...]]:
    asked = ("user_version", *(f"table_info({name})" for name in ("runs", "verdicts", "guilty", "needed")))
    with closing(sqlite3.connect(file)) as connection:
        return [row for name in asked for row in connection.execute(f"PRAGMA {name}")]


def test_reading_leaves_it_as_it_is(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = old.read_bytes()
    with open_history(old) as history:
        assert [run.verdicts for run in history.runs()] == [(OLD,)]
        assert history.guilty() == [EarlierSuspect("host", "h7", "gpu-hardware", 1, 9.0)]
        assert history.needed() == []

    with pytest.raises(SystemExit) as left:
        main(["history", "7", "--lang", "zh"])

    assert left.value.code == 0
    assert "it failed" in capsys.readouterr().out
    assert old.read_bytes() == before


def test_a_run_is_added_beside_the_old_ones(old: Path, tmp_path: Path) -> None:
    assert add(old) == 8

    with open_history(old) as history:
        assert [run.verdicts for run in history.runs()] == [(NEW,), (OLD,)]
        assert history.guilty()[0] == EarlierSuspect("host", "h7", "slow-rank", 2, 19.0)
    add(fresh := tmp_path / "fresh.sqlite3")
    assert shape(old) == shape(fresh)


def test_runs_that_end_at_once_make_it_new_once(old: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add(old), range(16)))

    with open_history(old) as history:
        assert len(history.runs(limit=100)) == 17


def test_one_that_grows_by_halves_is_as_it_was(old: Path) -> None:
    """The last step fails: somebody has added that column by hand."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("ALTER TABLE verdicts ADD COLUMN parts TEXT")

    with pytest.raises(HistoryError, match="cannot be written"):
        add(old)

    with open_history(old) as history:
        assert [run.verdicts for run in history.runs()] == [(OLD,)]


@pytest.mark.parametrize("words", [[], ["7"], ["--json"], ["--forget"]])
def test_one_of_a_newer_unhang_is_a_sentence_and_code_2(
    old: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = old.read_bytes()

    with pytest.raises(SystemExit) as left:
        main(["history", *words])

    said = capsys.readouterr()
    assert (left.value.code, said.out) == (2, "")
    assert f"{old} was written by a newer unhang" in said.err
    assert "update unhang" in said.err
    assert "Traceback" not in said.err
    assert old.read_bytes() == before


@pytest.mark.parametrize("torn", ["{", "[", ""])
def test_a_row_that_cannot_be_read_is_a_sentence(old: Path, torn: str) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE verdicts SET ranks = ?", (torn,))

    with pytest.raises(HistoryError, match="cannot be read"), open_history(old) as history:
        history.runs()
