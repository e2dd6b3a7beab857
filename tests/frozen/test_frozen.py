"""What earlier versions wrote is read as they read it; what another version wrote is said once, and nothing stops."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from unhang.cli.main import main
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Verdict
from unhang.history.database import HistoryError, open_history
from unhang.history.place import HistoryPlace
from unhang.view.reading import NO_LAST_STATE, read_run
from unhang.view.series_reading import RankRows
from unhang.watch.job.job_ranks import JobRanks
from unhang.watch.pace.pace_record import RunTotals
from unhang.watch.reporting import announcements
from unhang.wire.control import Control
from unhang.wire.process_registration import read_registrations
from unhang.wire.record import read_records

FROZEN = Path(__file__).parent / "57dbad29"
EXPECTED: dict[str, Any] = json.loads((FROZEN / "expected.json").read_text())
VERSION_AT, PID_AT = 8, 16
"""In the header of a record, behind eight letters; the process behind version and size."""
WITH_VERSION = (
    *(("slow", "bundle.json"), ("slow", "machine/pace.json"), ("slow", "machine/compared.json")),
    *(("slow", "machine/history.json"), ("slow", "machine/checkpoints.json"), ("slow", "machine/series.jsonl")),
    ("nodes", "machine/nodes.json"),
)


def unpacked(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(FROZEN / f"{name}.zip") as archive:
        archive.extractall(folder / name)
    return folder / name


def verdict_on(place: Path) -> Verdict:
    return diagnose(build_facts(read_evidence([str(place)])))


def as_expected(verdict: Verdict) -> dict[str, Any]:
    findings = [
        {
            "cause": found.cause.value,
            "certainty": found.certainty.value,
            "ranks": list(found.ranks),
            "where": f"{Path(found.where.file).name}:{found.where.line}" if found.where else None,
        }
        for found in verdict.findings
    ]
    return {"status": verdict.status.value, "world_size": verdict.world_size, "findings": findings}


@pytest.mark.parametrize("name", EXPECTED["verdicts"])
def test_an_archive_and_a_folder_have_the_verdict_they_had(name: str, tmp_path: Path) -> None:
    for place in (FROZEN / f"{name}.zip", unpacked(name, tmp_path)):
        verdict = verdict_on(place)

        assert as_expected(verdict) == EXPECTED["verdicts"][name]
        assert verdict.unread == ()


def test_the_record_of_a_live_rank_says_what_it_said(tmp_path: Path) -> None:
    folder = unpacked("records", tmp_path)

    assert {p.name: dataclasses.asdict(view) for p, view in read_records(folder).items()} == EXPECTED["records"]
    assert [found.rank for found in read_registrations(folder)] == [0, 1]
    reader = Control.open_read(folder)
    assert reader is not None
    assert reader.read() == Control(dump_request=2, watcher_pid=1057, collectives_per_step=1)


def test_the_history_tells_the_same_runs() -> None:
    with open_history(HistoryPlace(FROZEN)) as history:
        runs, guilty = history.runs(), history.guilty()

    told = [
        {
            "number": run.number,
            "outcome": run.outcome,
            "steps": run.steps,
            "verdicts": [[v.cause, v.certainty, list(v.ranks), v.place] for v in run.verdicts],
        }
        for run in runs
    ]
    assert told == EXPECTED["history"]
    assert [(one.name, one.cause, one.runs) for one in guilty] == [("vm", "slow-rank", 1)]


def test_a_viewer_shows_the_last_state_and_every_row(tmp_path: Path) -> None:
    folder = unpacked("well", tmp_path)
    reading, rows = read_run(folder), RankRows(folder)
    rows.read()

    assert reading.state is not None
    assert (reading.state.ranks.step, reading.state.totals.steps) == ([400, 400], 400)
    assert (len(rows.rows), rows.rows[-1].step, rows.sites[-1]) == (82, 400, "/tmp/job/steps.py:10 <module>")


def test_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(unpacked(name, tmp_path)) for name in ("well", "slow")]

    with pytest.raises(SystemExit) as ended:
        main(["compare", *folders, "--format", "json"])
    told = json.loads(capsys.readouterr().out)

    assert (ended.value.code, told["answer"]) == (3, "not-told")  # the slow run ended before its steps were known
    assert told["before"]["steps"]["last_step"] == 400
    assert (told["before"]["ranks"], told["unread"]) == ([0, 1], [])
    assert [lacks["because"] for lacks in told["not_compared"]] == [
        "the program did not call unhang.step(), and its collectives showed no rhythm"
    ]


@pytest.mark.parametrize(("name", "file"), WITH_VERSION)
def test_a_file_of_another_version_is_unread_and_said_once(name: str, file: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path) / file
    text = path.read_text()
    path.write_text(text.replace('/1"', '/2"', 1))
    verdict = verdict_on(tmp_path / name)

    assert text != path.read_text()
    assert [unread.source.path.endswith(file) for unread in verdict.unread].count(True) == 1


def test_a_record_of_another_version_is_not_watched_and_said_once(tmp_path: Path) -> None:
    members = ranks_of(tmp_path, other_version=("0.1078.rec",))
    words = announcements.summary_lines(RunTotals(), members, tmp_path)

    assert sorted(members.by_rank) == [0]
    assert words.count("could not observe rank 1") == 1


def test_records_of_another_version_only_are_said_once(tmp_path: Path) -> None:
    members = ranks_of(tmp_path, other_version=("0.1077.rec", "0.1078.rec"))
    words = announcements.summary_lines(RunTotals(), members, tmp_path)

    assert words == "unhang: could not observe ranks 0, 1: another version of unhang is installed where they run\n"


def ranks_of(tmp_path: Path, other_version: tuple[str, ...]) -> JobRanks:
    """The ranks of the frozen records, as if this process were each of them."""
    folder = unpacked("records", tmp_path)
    for path in folder.glob("*.rec"):
        data = bytearray(path.read_bytes())
        struct.pack_into("<q", data, PID_AT, os.getpid())
        if path.name in other_version:
            (version,) = struct.unpack_from("<I", data, VERSION_AT)
            struct.pack_into("<I", data, VERSION_AT, version + 1)
        path.write_bytes(data)
    members = JobRanks(folder)
    members.refresh()
    return members


def test_a_rank_goes_on_by_itself_where_the_control_file_is_of_another_version(tmp_path: Path) -> None:
    path = unpacked("records", tmp_path) / "control"
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 4 + VERSION_AT, 2)
    path.write_bytes(data)
    reader = Control.open_read(path.parent)

    assert reader is not None
    assert reader.read() == Control()


def test_a_snapshot_of_another_version_is_not_shown(tmp_path: Path) -> None:
    path = unpacked("well", tmp_path) / "live.json"
    path.write_text(path.read_text().replace("unhang.live/1", "unhang.live/2"))
    reading = read_run(path.parent)

    assert (reading.live, reading.state, reading.because) == (False, None, NO_LAST_STATE)


def test_a_newer_history_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    shutil.copy(FROZEN / path.name, path)
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes()

    with pytest.raises(HistoryError, match="by a newer unhang"), open_history(HistoryPlace(tmp_path), to_write=True):
        pass
    assert path.read_bytes() == before
