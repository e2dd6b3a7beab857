"""Runs are kept with what came of them; the host or card that was named before is named again."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unhang.cli.main import main
from unhang.diagnosis.lead_notes import note_repeats
from unhang.diagnosis.restart import advise_restart, restart_after
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Source, Unread
from unhang.history.database import MAX_RUNS, open_history
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import NeededSetting, PastRun, RunEnding, RunFinding, day_of, run_from_folder
from unhang.watch import side_process
from unhang.watch.side_process import Recorded
from unhang.wire.documents.earlier_verdicts import EarlierSuspect, gpus_named, read_suspect_listing, suspect_listing
from unhang.wire.documents.run_settings import RunSettings

CARD = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def told(cause: str = "gpu-hardware", nodes: tuple[str, ...] = ("h7",), **more: Any) -> RunFinding:
    return replace(RunFinding(cause, "likely", "hang", (3,), nodes, (), "train.py:51", "it failed"), **more)


def run(outcome: str = "good", at: float = 1.0, **more: Any) -> PastRun:
    return replace(
        PastRun("/runs/a", "torchrun train.py", "/home/ml", at, at + 9, outcome, ("h7", "h8"), 8, 100), **more
    )


NOW = time.time()


def test_a_run_reads_back_as_it_was_kept(place: HistoryPlace) -> None:
    kept = run("stalled", verdicts=(told(), told("uneven-data")), settings='{"a": 1}')
    with open_history(place, to_write=True) as history:
        number = history.add(kept)

    assert number == 1
    with open_history(place) as history:
        assert history.run(number) == replace(kept, number=number)
        assert history.runs(host="h8") == [replace(kept, number=number)]
        assert history.runs(host="h9") == []


def test_the_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    with open_history(place, to_write=True) as history:
        history.add(run())

    assert stat.S_IMODE(place.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700


def test_a_record_that_comes_twice_is_kept_once(place: HistoryPlace) -> None:
    with open_history(place, to_write=True) as history:
        assert history.add(run("stalled", verdicts=(told(),)), "an id") == 1
        assert history.add(run("stalled", verdicts=(told(),)), "an id") is None
        assert history.add(run(), "another") is not None

        assert [len(one.verdicts) for one in history.runs()] == [0, 1]


def test_any_text_can_be_kept(place: HistoryPlace) -> None:
    """Names of files need not be UTF-8, and a file may hold a NUL."""
    with open_history(place, to_write=True) as history:
        history.add(run(cwd="/home/\udce9", settings="\0", hosts=("h\0",)))

        assert (history.runs()[0].cwd, history.runs()[0].settings) == ("/home/?", "\ufffd")


def test_only_causes_of_the_machine_stay_with_a_host(place: HistoryPlace) -> None:
    with open_history(place, to_write=True) as history:
        history.add(run("stalled", at=1, verdicts=(told(), told())))
        history.add(run("stalled", at=2, verdicts=(told("network-fault", cards=(CARD,)),)))
        history.add(run("stalled", at=3, verdicts=(told("uneven-data", nodes=("h8",)),)))

        guilty = history.guilty()

    assert guilty == [
        EarlierSuspect("host", "h7", "network-fault", 2, 11.0),
        EarlierSuspect("card", CARD, "network-fault", 1, 11.0),
    ]


def test_the_last_good_run_of_the_same_job(place: HistoryPlace) -> None:
    with open_history(place, to_write=True) as history:
        history.add(run("good", command="torchrun other.py"))
        history.add(run("good", folder="/runs/good"))
        history.add(run("stalled", command="torchrun --nproc-per-node 4 train.py --lr 1"))
        last = history.runs(limit=1)[0]
        found = history.last_good(last)

    assert found is not None
    assert found.folder == "/runs/good"


def test_runs_that_end_at_once_are_all_kept(place: HistoryPlace) -> None:
    def add(number: int) -> None:
        with open_history(place, to_write=True) as history:
            history.add(run(at=float(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))

    with open_history(place) as history:
        assert len(history.runs(limit=100)) == 24


def test_a_file_does_not_grow_without_end(tmp_path: Path) -> None:
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    with open_history(place, to_write=True) as history:
        history.add(run())
    with closing(sqlite3.connect(place.file)) as connection, connection:
        connection.execute("UPDATE sqlite_sequence SET seq = ?", (MAX_RUNS,))
    with open_history(place, to_write=True) as history:
        history.add(run("stalled", verdicts=(told(),)))
        assert [one.number for one in history.runs(limit=9)] == [MAX_RUNS + 1]


@pytest.mark.parametrize("damage", [b"no database at all" * 99, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_damaged_file_is_a_sentence_and_code_2(
    tmp_path: Path, damage: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "unhang" / "history.sqlite3"
    file.parent.mkdir(parents=True)
    file.write_bytes(damage)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    with pytest.raises(SystemExit) as left:
        main(["history"])

    assert left.value.code == 2
    assert str(file) in capsys.readouterr().err


def test_no_history_yet_is_no_error(tmp_path: Path) -> None:
    with open_history(history_place({"XDG_STATE_HOME": str(tmp_path)})) as history:
        assert (history.runs(), history.guilty(), history.suspects(30), history.needed()) == ([], [], [], [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"HOME": "/home/ml"}, "/home/ml/.local/state/unhang/history.sqlite3"),
        ({"HOME": "/home/ml", "XDG_STATE_HOME": "/state"}, "/state/unhang/history.sqlite3"),
        ({"HOME": "/home/ml", "XDG_STATE_HOME": "relative"}, "/home/ml/.local/state/unhang/history.sqlite3"),
    ],
)
def test_where_it_lies(environment: dict[str, str], where: str) -> None:
    assert history_place(environment).file == Path(where)


def run_folder(folder: Path, *, cause: str = "gpu-hardware", status: str = "hang") -> Path:
    folder.mkdir()
    (folder / "run.json").write_text(
        json.dumps({"command": ["torchrun", "t.py", "--hub_token=hf_abcdefghijklmnopqrstuvwxyz"], "started_s": 5.0})
    )
    evidence = {"text": f"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus. {CARD}"}
    finding = {"cause": cause, "certainty": "likely", "ranks": [2], "nodes": ["h7"], "evidence": [evidence]}
    (folder / "verdict.json").write_text(json.dumps({"status": status, "findings": [finding]}))
    return folder


def test_a_run_folder_tells_its_outcome_and_no_secret(tmp_path: Path) -> None:
    found = run_from_folder(RunEnding(str(run_folder(tmp_path / "run")), failed=False, ended_s=9.0, hosts=("h7", "h8")))

    assert (found.outcome, found.verdicts[0].nodes) == ("stalled", ("h7",))
    assert found.verdicts[0].cards == (CARD, "h7 0000:3b:00")
    assert "hf_" not in found.command


@pytest.mark.parametrize(("failed", "outcome"), [(False, "good"), (True, "failed"), (None, "ended")])
def test_a_run_without_a_verdict(tmp_path: Path, failed: bool | None, outcome: str) -> None:
    assert run_from_folder(RunEnding(str(tmp_path), failed=failed, ended_s=1.0)).outcome == outcome


@pytest.mark.usefixtures("named")
def test_what_one_run_was_told_is_said_in_the_next(tmp_path: Path) -> None:
    ending = RunEnding(str(run_folder(tmp_path / "run")), True, time.time(), ("h7", "h8"))
    assert side_process.add_to_history(ending, 30) is Recorded.KEPT
    look = side_process.ask_history()
    deadline = time.monotonic() + 30
    while not look.answer() and time.monotonic() < deadline:
        time.sleep(0.02)

    earlier = read_suspect_listing(look.answer() or b"", source=Source("x"))

    assert not isinstance(earlier, Unread)
    assert {(guilt.kind, guilt.name) for guilt in earlier} == {
        *(("host", "h7"), ("card", CARD), ("card", "h7 0000:3b:00"))
    }


def xid_log(tmp_path: Path, host: str) -> str:
    path = tmp_path / "kernel.log"
    path.write_text(f"Nov 21 10:00:00 {host} kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    return str(path)


def test_a_host_that_was_named_before_is_left_out_next_time(tmp_path: Path) -> None:
    facts = build_facts(read_evidence([xid_log(tmp_path, "h7")]))
    facts = replace(
        facts,
        earlier=(EarlierSuspect("host", "h7", "gpu-hardware", 2, 1.7e9), EarlierSuspect("host", "h8", "x", 9, 1.0)),
    )
    from unhang.diagnosis.diagnose import diagnose

    verdict = diagnose(facts)

    assert verdict.findings[0].cause.value == "gpu-hardware"
    assert [str(why) for why in verdict.findings[0].because if "earlier" in str(why)] == [
        "earlier verdicts named h7 too (runs: 2; last on 2023-11-14: gpu-hardware)"
    ]


def test_a_cause_of_the_program_is_not_blamed_on_its_host(tmp_path: Path) -> None:
    facts = build_facts(read_evidence([xid_log(tmp_path, "h7")]))
    facts = replace(facts, earlier=(EarlierSuspect("host", "h7", "gpu-hardware", 2, 1.7e9),))
    from unhang.diagnosis.diagnose import diagnose
    from unhang.findings import Cause

    verdict = diagnose(replace(facts, earlier=()))
    verdict = replace(verdict, findings=(replace(verdict.findings[0], cause=Cause.UNEVEN_DATA),))

    assert note_repeats(facts, verdict) == verdict
    assert advise_restart(facts, verdict).restart == restart_after(verdict.findings)


def test_cards_in_a_text() -> None:
    line = f"NVRM: Xid (PCI:0000:3B:00): 79 and 00000000:5E:00.0 and {CARD}"

    assert gpus_named(line, ["h1"]) == {CARD, "h1 0000:3b:00", "h1 0000:5e:00"}
    assert gpus_named(line, ["h1", "h2"]) == {CARD}


def test_a_forged_listing_is_not_believed() -> None:
    good = suspect_listing([EarlierSuspect("host", "h7", "gpu-hardware", 1, 2.0)])

    for raw in (b"[]", good.replace(b"host", b"moon"), good.replace(b"gpu-hardware", b"bad luck"), good + b"x"):
        assert isinstance(read_suspect_listing(raw, source=Source("x")), Unread)


def fill(place: HistoryPlace) -> None:
    with open_history(place, to_write=True) as history:
        history.add(run("good", at=NOW - 90, folder="/runs/good"))
        history.add(run("stalled", at=NOW - 80, folder="/runs/bad1", verdicts=(told(),)))
        history.add(run("stalled", at=NOW - 70, folder="/runs/bad2", verdicts=(told(),)))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["history", *words])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_the_screen(named: HistoryPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    fill(named)

    screen = printed(capsys)
    day = day_of(NOW - 61)
    # two of two named hold one of two hosts: one in four by chance, twice over, as two were looked at
    assert screen.startswith(
        f"Named repeatedly\n  2 of 3 runs named h7, last on {day}: gpu-hardware; this may be chance\n"
    )
    assert "stalled · gpu-hardware · rank 3 · train.py:51" in screen
    chinese = printed(capsys, "--lang", "zh")
    assert "多次被点名" in chinese
    assert (" 9 s  " in screen, " 9 秒  " in chinese) == (True, True)
    assert json.loads(printed(capsys, "--json"))["named"][0]["name"] == "h7"
    one = printed(capsys, "3")
    assert "Last good run of this job: 1" in one
    assert "unhang compare /runs/good /runs/bad2" in one
    assert json.loads(printed(capsys, "--json"))["named"][0]["chance"] == pytest.approx(0.5)
    assert printed(capsys, "--forget").startswith("forgotten: 3 runs")
    assert "No runs yet" in printed(capsys)


def test_an_unknown_number_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["history", "987654"])

    assert left.value.code == 2
    assert "no run 987654" in capsys.readouterr().err


def test_a_home_that_does_not_answer_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the database is held by somebody who does not let go before we have answered."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = history_place({"XDG_STATE_HOME": str(tmp_path)})
    fill(place)
    with closing(sqlite3.connect(place.file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert side_process.add_to_history(RunEnding(str(tmp_path), failed=False, ended_s=1.0)) is Recorded.BESIDE

    assert side_process.add_to_history(RunEnding(str(tmp_path), failed=True, ended_s=2.0), 30) is Recorded.KEPT
    with open_history(place) as history:
        assert [one.ended_s for one in history.runs(limit=2)] == [1.0, 2.0]
    assert list(place.unsent.iterdir()) == []


def test_importing_it_is_light() -> None:
    heavy = "('torch', 'numpy', 'rich', 'sqlalchemy', 'alembic')"
    code = f"import unhang.history.__main__, sys; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert out.stdout.strip() == "[]"


def settings(**environment: str) -> str:
    return RunSettings(environment=environment).json().decode()


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (("stalled", "p2p-broken", {}), {"NCCL_P2P_DISABLE": "1", "OMP_NUM_THREADS": "4"}, ["NCCL_P2P_DISABLE=1"]),
        (("stalled", "p2p-broken", {"NCCL_P2P_DISABLE": "1"}), {"NCCL_P2P_DISABLE": "1"}, []),
        (("stalled", "uneven-data", {}), {"NCCL_P2P_DISABLE": "1"}, []),
        (("stalled", "p2p-broken", {}), {"NCCL_P2P_DISABLE": "0"}, []),
        (("good", "p2p-broken", {}), {"NCCL_P2P_DISABLE": "1"}, []),
    ],
)
def test_a_setting_that_repaired_a_job_is_kept(
    place: HistoryPlace, before: tuple[str, str, dict[str, str]], after: dict[str, str], kept: list[str]
) -> None:
    outcome, cause, environment = before
    with open_history(place, to_write=True) as history:
        history.add(run(outcome, settings=settings(**environment), verdicts=(told(cause),)))
        history.add(run("stalled", cwd="/home/other", verdicts=(told("p2p-broken"),)))
        number = history.add(run("good", at=90_000.0, settings=settings(**after)))

        found = history.needed("h7")

    assert [one.setting for one in found] == kept
    assert all(one.how.startswith(f"run {number} 1970-01-0") for one in found)


def test_a_setting_is_shown_and_forgotten(named: HistoryPlace, capsys: pytest.CaptureFixture[str]) -> None:
    fill(named)
    with open_history(named, to_write=True) as history:
        names = ("NCCL_P2P_DISABLE=1", "NCCL_IB_DISABLE=1", "NCCL_P2P_LEVEL=PIX")
        history.keep_needed(NeededSetting("h7", name, "bisect 2026-11-20") for name in names)

    assert printed(capsys).startswith("Settings needed by machine\n  h7: NCCL_IB_DISABLE=1 (bisect 2026-11-20)\n")
    assert "各机器需要的设置" in printed(capsys, "--lang", "zh")
    assert json.loads(printed(capsys, "--json"))["needed"][1]["setting"] == "NCCL_P2P_DISABLE=1"
    assert "NCCL" not in printed(capsys, "--host", "h8").partition("run ")[0]
    assert printed(capsys, "--forget", "NCCL_P2P_DISABLE").startswith("forgotten: NCCL_P2P_DISABLE (")
    left = printed(capsys)
    assert "NCCL_P2P_DISABLE" not in left
    assert "NCCL_P2P_LEVEL=PIX" in left
    assert "stalled" in left
    printed(capsys, "--forget")
    assert "NCCL" not in printed(capsys)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--forget", "NCCL_PROTO"], "holds no setting NCCL_PROTO"),
        (["--forget", "3"], "3 is not the name of a setting"),
        (["NCCL_PROTO"], "NCCL_PROTO is not the number of a run"),
        (["--older-than", "90d"], "--older-than needs --forget alone"),
        (["--forget", "--older-than", "soon"], "soon is no number of days"),
    ],
)
def test_what_cannot_be_shown_or_forgotten_is_bad_usage(
    words: list[str], says: str, named: HistoryPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(named)

    with pytest.raises(SystemExit) as left:
        main(["history", *words])

    assert left.value.code == 2
    assert says in capsys.readouterr().err
    with open_history(named) as history:
        assert len(history.runs()) == 3
