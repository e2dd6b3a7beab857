"""A history of an older unhang is read and added to; one of a newer unhang is left alone, with a sentence."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from unhang.cli.main import main
from unhang.history.database import HistoryError, open_history
from unhang.history.opening import open_connection
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import PastRun, RunFinding
from unhang.history.tables import HEAD, TABLES, VERSION_TABLE
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
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryPlace:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    place.folder.mkdir()
    with closing(sqlite3.connect(place.file)) as connection:
        connection.executescript(TABLES_1)
    return place


def add(place: HistoryPlace) -> int | None:
    with open_history(place, to_write=True) as history:
        return history.add(PastRun("/runs/new", "torchrun t.py", "/home/ml", 11.0, 19.0, "slow", verdicts=(NEW,)))


def shape(place: HistoryPlace) -> list[tuple[object, ...]]:
    asked = ("user_version", *(f"table_info({name})" for name in ("runs", "verdicts", "took_part", "needed")))
    with closing(sqlite3.connect(place.file)) as connection:
        names = connection.execute("SELECT type, name, tbl_name FROM sqlite_master ORDER BY name").fetchall()
        rows = [row for name in asked for row in connection.execute(f"PRAGMA {name}")]
    return [*names, *((*row[:3], row[-1]) if row[-1] else row for row in rows)]  # a key is never NULL, said or not


def test_reading_leaves_it_as_it_is(old: HistoryPlace, capsys: pytest.CaptureFixture[str]) -> None:
    before = old.file.read_bytes()
    with open_history(old) as history:
        assert [run.verdicts for run in history.runs()] == [(OLD,)]
        assert history.guilty() == [EarlierSuspect("host", "h7", "gpu-hardware", 1, 9.0)]
        assert history.needed() == []

    with pytest.raises(SystemExit) as left:
        main(["history", "7", "--lang", "zh"])

    assert left.value.code == 0
    assert "it failed" in capsys.readouterr().out
    assert old.file.read_bytes() == before


def test_a_run_is_added_beside_the_old_ones(old: HistoryPlace, tmp_path: Path) -> None:
    assert add(old) == 8

    with open_history(old) as history:
        assert [run.verdicts for run in history.runs()] == [(NEW,), (OLD,)]
        assert history.guilty()[0] == EarlierSuspect("host", "h7", "slow-rank", 2, 19.0)
    add(fresh := history_place({"XDG_STATE_HOME": str(tmp_path / "fresh")}))
    assert shape(old) == shape(fresh)


def test_runs_that_end_at_once_make_it_new_once(old: HistoryPlace) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add(old), range(16)))

    with open_history(old) as history:
        assert len(history.runs(limit=100)) == 17


def test_processes_that_come_at_once_make_the_tables_once(shared: HistoryPlace) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom unhang.history.database import open_history\n"
        "from unhang.history.place import HistoryPlace\nfrom unhang.history.run import PastRun\n"
        "with open_history(HistoryPlace(Path(sys.argv[1]), sys.argv[2]), to_write=True) as history:\n"
        "    history.add(PastRun('/r', 'torchrun t.py', '/', 1.0, 2.0, 'good'))\n"
    )
    words = [sys.executable, "-c", code, str(shared.folder), shared.url]
    started = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(6)]
    said = [process.communicate(timeout=60)[1].decode() for process in started]

    assert said == [""] * 6
    with open_history(shared) as history:
        assert len(history.runs()) == 6


def test_a_copy_of_what_was_there_is_kept_until_all_is_forgotten(old: HistoryPlace) -> None:
    with closing(sqlite3.connect(old.file)) as connection:
        before = list(connection.iterdump())
    add(old)
    add(old)

    copy = old.folder / "history.sqlite3.before-4"
    assert sorted(path.name for path in old.folder.iterdir()) == ["history.sqlite3", copy.name]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert list(connection.iterdump()) == before
    with open_history(old, to_write=True) as history:
        assert history.forget() == 3
    assert not copy.exists()


def test_one_that_cannot_grow_is_as_it_was(old: HistoryPlace) -> None:
    """A step fails: somebody has added that column by hand."""
    with closing(sqlite3.connect(old.file)) as connection:
        connection.execute("ALTER TABLE verdicts ADD COLUMN parts TEXT")
        before = list(connection.iterdump())

    with pytest.raises(HistoryError, match="cannot be written: duplicate column name: parts"):
        add(old)

    with closing(sqlite3.connect(old.file)) as connection:
        assert list(connection.iterdump()) == before


def test_the_tables_are_those_that_the_migrations_make(place: HistoryPlace) -> None:
    with open_connection(place, to_write=True) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, TABLES) == []
        assert context.get_current_revision() == HEAD


@pytest.mark.parametrize("words", [[], ["7"], ["--json"], ["--forget"]])
@pytest.mark.parametrize("kind", ["older file", "same file", "server"])
def test_one_of_a_newer_unhang_is_a_sentence_and_code_2(
    kind: str,
    words: list[str],
    old: HistoryPlace,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = request.getfixturevalue("shared") if kind == "server" else old
    monkeypatch.setenv("UNHANG_HISTORY", place.url)
    if kind == "older file":
        with closing(sqlite3.connect(old.file)) as connection:
            connection.execute("PRAGMA user_version = 5")
    else:
        add(place)
        with open_connection(place, to_write=True) as connection:
            connection.exec_driver_sql("UPDATE unhang_version SET version_num = '0005'")
            connection.commit()
    before = b"" if place.url else old.file.read_bytes()

    with pytest.raises(SystemExit) as left:
        main(["history", *words])

    said = capsys.readouterr()
    assert (left.value.code, said.out) == (2, "")
    assert "was written by a newer unhang (its tables are of version 5, this one knows version 4)" in said.err
    assert place.url or str(place.file) in said.err
    assert "update unhang" in said.err
    assert "Traceback" not in said.err
    assert before == (b"" if place.url else old.file.read_bytes())


def test_an_older_unhang_sees_that_it_is_not_its_own(old: HistoryPlace) -> None:
    add(old)
    with closing(sqlite3.connect(old.file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)


@pytest.mark.parametrize("torn", ["{", "[", ""])
def test_a_row_that_cannot_be_read_is_a_sentence(old: HistoryPlace, torn: str) -> None:
    with closing(sqlite3.connect(old.file)) as connection, connection:
        connection.execute("UPDATE verdicts SET ranks = ?", (torn,))

    with pytest.raises(HistoryError, match="cannot be read"), open_history(old) as history:
        history.runs()
