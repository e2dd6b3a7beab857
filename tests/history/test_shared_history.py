"""A history that a cluster shares: a server that goes away and comes back, roles that may little, no password shown."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.postgres_server import PASSWORD, PostgresServer, missing
from tests.history.test_history import run, run_folder, told
from unhang.cli.main import main
from unhang.errors import UsageError
from unhang.history.database import HistoryError, open_history
from unhang.history.opening import shown
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import RunEnding
from unhang.history.unsent import MAX_FILES, keep_unsent, waiting
from unhang.watch import side_process
from unhang.watch.side_process import Recorded
from unhang.wire.documents.run_settings import RunSettings

WRITERS = 40


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that a test may kill."""
    if reason := missing():
        pytest.skip(reason)
    server = PostgresServer()
    yield server
    server.end()


def ending(folder: Path) -> RunEnding:
    return RunEnding(str(folder), failed=False, ended_s=time.time(), hosts=("h7",))


def test_a_server_that_goes_away_costs_no_run(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = history_place({"XDG_STATE_HOME": str(tmp_path)}, own_server.url("postgres"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("UNHANG_HISTORY", place.url)
    folder = run_folder(tmp_path / "run")
    assert side_process.add_to_history(ending(folder), 30) is Recorded.KEPT

    own_server.kill()
    assert [side_process.add_to_history(ending(folder), 30) for _ in range(2)] == [Recorded.BESIDE] * 2
    beside = waiting(place)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place.unsent, *beside)] == [0o700, 0o600, 0o600]
    assert PASSWORD not in "".join(path.read_text() for path in beside)

    own_server.start()
    assert side_process.add_to_history(ending(folder), 30) is Recorded.KEPT
    assert waiting(place) == []
    with open_history(place) as history:
        assert len(history.runs()) == 4


def test_a_server_that_accepts_and_says_nothing_holds_nobody_up(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes are stopped, as on a machine that is out of memory."""
    place = history_place({"XDG_STATE_HOME": str(tmp_path)}, own_server.url("postgres"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("UNHANG_HISTORY", place.url)
    pid = int((own_server.folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, 19)
    try:
        assert side_process.add_to_history(ending(tmp_path), 5.0) is Recorded.BESIDE
    finally:
        os.kill(pid, 18)

    assert side_process.add_to_history(ending(tmp_path), 30) is Recorded.KEPT
    assert waiting(place) == []


def test_where_nothing_can_be_written_the_run_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unhang").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("UNHANG_HISTORY", "postgresql://nobody@/none?host=/nowhere")

    assert side_process.add_to_history(ending(tmp_path), 30) is Recorded.LOST


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    for _ in range(MAX_FILES):
        assert keep_unsent(place, run())[1] is not None

    assert keep_unsent(place, run())[1] is None
    assert len(waiting(place)) == MAX_FILES


def test_a_torn_file_does_not_hold_up_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    keep_unsent(place, replace(run(), world_size=1 << 63))
    keep_unsent(place, run())
    (place.unsent / "0.json").write_text('{"id": "torn')

    assert side_process.add_to_history(ending(tmp_path), 30) is Recorded.KEPT
    assert waiting(place) == []
    with open_history(place) as history:
        assert len(history.runs()) == 2


def test_many_writers_at_once(shared: HistoryPlace) -> None:
    code = (
        "import sys, threading\nfrom pathlib import Path\nfrom unhang.history.database import open_history\n"
        "from unhang.history.place import HistoryPlace\nfrom unhang.history.run import PastRun, RunFinding\n"
        "told = RunFinding('gpu-hardware', 'likely', 'hang', (3,), ('h7',), (), 't.py:5', 'it failed')\n"
        "run = PastRun('/r', 'torchrun t.py', '/', 1.0, 2.0, 'stalled', ('h7', 'h8'), verdicts=(told,))\n"
        "def add():\n"
        "    with open_history(HistoryPlace(Path('/'), sys.argv[1]), to_write=True) as history: history.add(run)\n"
        "threads = [threading.Thread(target=add) for _ in range(int(sys.argv[2]))]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
    )
    with open_history(shared, to_write=True):
        pass
    words = [sys.executable, "-c", code, shared.url, str(WRITERS // 4)]
    started = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate(timeout=100)[1] for process in started] == [b""] * 4

    with open_history(shared) as history:
        assert len(history.runs(limit=1000)) == WRITERS
        assert history.guilty()[0].runs == WRITERS


def test_who_may_only_read_reads(
    server: PostgresServer, shared: HistoryPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = shared.url.partition("@/")[2].partition("?")[0]
    server.sql(database, f"CREATE ROLE reader_{database} LOGIN PASSWORD 'r'")
    monkeypatch.setenv("UNHANG_HISTORY", server.url(database, f"reader_{database}", "r"))

    def said() -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["history", "--json"])
        found = capsys.readouterr()
        return int(str(left.value.code)), found.out, found.err

    code, _, err = said()
    assert (code, "has no tables of this version yet" in err) == (2, True)
    with open_history(shared, to_write=True) as history:
        history.add(run("stalled", verdicts=(told(),)))
    code, _, err = said()
    assert (code, "permission denied" in err) == (2, True)
    server.sql(database, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{database}")
    code, out, _ = said()
    assert (code, len(json.loads(out)["runs"])) == (0, 1)
    with pytest.raises(SystemExit) as left:
        main(["history", "--forget"])
    assert left.value.code == 2
    assert "permission denied" in capsys.readouterr().err


def test_who_may_only_record_records_and_forgets_nothing(
    server: PostgresServer, shared: HistoryPlace, tmp_path: Path
) -> None:
    """With the rights of docs/history.md."""
    with open_history(shared, to_write=True):
        pass
    database = shared.url.partition("@/")[2].partition("?")[0]
    server.sql(database, f"CREATE ROLE writer_{database} LOGIN PASSWORD 'w'")
    page = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
    grants = [
        line.partition(";")[0] for line in page.splitlines() if line.startswith("GRANT") and "unhang_writer" in line
    ]
    assert len(grants) == 3
    for grant in grants:
        server.sql(database, grant.replace("unhang_writer", f"writer_{database}"))
    place = history_place({"XDG_STATE_HOME": str(tmp_path)}, server.url(database, f"writer_{database}", "w"))
    stalled = run("stalled", verdicts=(told("p2p-broken"),))

    with open_history(place, to_write=True) as history:
        history.add(stalled, "an id")
        assert history.add(stalled, "an id") is None
        history.add(run("good", settings=RunSettings(environment={"NCCL_P2P_DISABLE": "1"}).json().decode()))
        assert [one.setting for one in history.needed("h7")] == ["NCCL_P2P_DISABLE=1"]
    with pytest.raises(HistoryError, match="permission denied"), open_history(place, to_write=True) as history:
        history.forget()


def test_reading_cannot_write(shared: HistoryPlace) -> None:
    with open_history(shared, to_write=True) as history:
        history.add(run())

    with pytest.raises(HistoryError, match="read-only transaction"), open_history(shared) as history:
        history.forget()


@pytest.mark.parametrize("asked", ["wrong password", "no such database", "no server"])
def test_no_error_shows_the_password(
    asked: str,
    server: PostgresServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = {
        "wrong password": server.url("postgres", password="hunter2-hunter2"),
        "no such database": server.url("missing", password=PASSWORD) + "&passfile=hunter2-hunter2",
        "no server": "postgresql://me:hunter2-hunter2@/db?host=/nowhere",
    }[asked]
    for words in (["--history", url], ["--history", url, "--forget"]):
        with pytest.raises(SystemExit) as left:
            main(["history", *words])
        said = capsys.readouterr()
        assert left.value.code == 2
        assert "the history at postgresql://" in said.err
        assert "hunter2" not in said.out + said.err
        assert PASSWORD not in said.out + said.err


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "postgresql://u:p@hunter2@h/d", "hunter2"])
def test_what_is_no_address_is_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as error:
        history_place({}, url)

    assert "hunter2" not in f"{error.value} {error.value.next_step}"


def test_the_place_is_shown_without_its_password_and_options() -> None:
    place = history_place({}, "postgres://me:hunter2@db:5433/unhang?password=hunter2&sslmode=require")

    assert shown(place) == "postgresql://me@db:5433/unhang"
    assert "hunter2" not in repr(place)


def test_old_runs_are_forgotten_by_days(named: HistoryPlace, capsys: pytest.CaptureFixture[str]) -> None:
    with open_history(named, to_write=True) as history:
        history.add(run("stalled", at=time.time() - 100 * 86_400, verdicts=(told(),)))
        history.add(run("stalled", at=time.time() - 80 * 86_400, verdicts=(told(),)))

    with pytest.raises(SystemExit) as left:
        main(["history", "--forget", "--older-than", "90d"])

    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("forgotten: 1 runs")
    with open_history(named) as history:
        assert [one.number for one in history.runs()] == [2]
        assert history.guilty()[0].runs == 1
