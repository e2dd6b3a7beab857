"""A run shows its state only to who asks, in one small file, and leaves the last one behind."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest

from unhang.errors import UsageError
from unhang.report.text_serialization import text_to_json
from unhang.sentences import say
from unhang.view.reading import JUST_BEGUN, latest_run, read_run, run_in
from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.job.wait_detection import RankSample, WaitDetector
from unhang.watch.nodes.rank_digest import NodeRanks
from unhang.watch.nodes.transport.node_discovery import node_name
from unhang.watch.pace.pace_record import RunTotals
from unhang.watch.reporting.live_snapshot import LiveFile, snapshot_of, with_failed_exits
from unhang.wire.documents.live_state import LIVE_FILE_NAME, REQUEST_FILE, STATES, LiveState, RankActivity
from unhang.wire.documents.run_plan import RUN_SCHEMA, RunPlan
from unhang.wire.documents.verdict_summary import VerdictSummary, read_summary
from unhang.wire.record_views import CodeLine, GroupProgress, MarkedPhase, RankIdentity, RecordView


def look(rank: int, *, waits: bool = False) -> RankSample:
    now = time.monotonic_ns()
    group = GroupProgress("default_pg", 2, enqueued=9, completed=8 if waits else 9, changed_ns=now - 3_000_000_000)
    return RankSample(
        RecordView(
            identity=RankIdentity(pid=1, rank=rank, world_size=2, armed_ns=1, attempt=1),
            beat_ns=now,
            phase="communication" if waits else "compute",
            since_ns=now - 3_000_000_000,
            user=CodeLine("train.py", 47 if waits else 12, "main"),
            step_source="guards",
            steps=9,
            step_mean_ns=2.5e8,
            groups=[group],
            mark=MarkedPhase("evaluation", "eval", now, -1) if rank == 0 else None,
        )
    )


def snapshot(folder: Path, ranks: int = 2) -> LiveState:
    looks = {rank: look(rank, waits=rank == 1) for rank in range(ranks)}
    detector = WaitDetector()
    now_ns = time.monotonic_ns()
    states = detector.rank_states(now_ns, looks)
    standing = detector.judge(now_ns, states)
    said = VerdictSummary(
        1, "stall", "hang", "uneven-data", "likely", (0,), "train.py:12", "…", 1.0, time.time() + 60, *[False] * 4
    )
    private_files.write_json(
        folder / "summary.json", asdict(replace(said, sentence_parts=text_to_json(say("progressing"))))
    )
    said = read_summary(folder / "summary.json")
    return snapshot_of(
        RunPlan(command=["torchrun", "train.py", "--hub_token", "a-secret-word"], started_s=1.0),
        folder,
        NodeRanks(looks, states),
        node_of=dict.fromkeys(looks, "h1"),
        world_size=ranks,
        wait=standing,
        said=said,
        totals=RunTotals(),
    )


def test_what_a_snapshot_tells(tmp_path: Path) -> None:
    began_s = time.time()
    state = snapshot(tmp_path)
    took_s = time.time() - began_s

    assert state.ranks.rank == [0, 1]
    assert [STATES[number] for number in state.ranks.state] == ["idle", "waiting"]
    assert state.ranks.waits_s[0] == -1
    assert state.ranks.waits_s[1] >= 2.9
    assert [state.places[number] for number in state.ranks.place] == ["train.py:12", "train.py:47"]
    assert [state.labels[number] if number >= 0 else "" for number in state.ranks.label] == ["evaluation", ""]
    assert (state.run.nodes, state.run.attempt, state.ranks.step_s) == (["h1"], 1, [0.25, 0.25])
    assert (state.groups[0].enqueued, state.groups[0].completed) == ([9, 9], [9, 8])
    assert state.standing is not None
    assert state.standing.killed_in_s is not None
    assert 60 - took_s - 0.1 <= state.standing.killed_in_s <= 60
    assert (state.standing.waiters, state.standing.laggards) == ([1], [0])
    assert state.verdict is not None
    assert (state.verdict.cause, state.verdict.parts) == ("uneven-data", {"template": "progressing", "values": {}})
    assert state.run.command == ["torchrun", "train.py", "--hub_token", "[removed]"]


def test_ten_thousand_ranks_stay_small(tmp_path: Path) -> None:
    assert len(msgspec.json.encode(snapshot(tmp_path, 10_000))) < 1 << 20


def run_folder(tmp_path: Path) -> tuple[Path, Path]:
    folder, records = tmp_path / "unhang-runs" / "a", tmp_path / "records"
    folder.mkdir(parents=True)
    records.mkdir()
    (folder / "run.json").write_text(json.dumps({"schema": RUN_SCHEMA, "records": str(records)}))
    (records / "control").touch()
    return folder, records


def test_nothing_is_written_until_somebody_asks(tmp_path: Path) -> None:
    folder, records = run_folder(tmp_path)
    live = LiveFile(records, folder)
    assert not live.due()
    assert read_run(folder).because == JUST_BEGUN

    assert live.due()
    live.write(snapshot(folder))
    assert not live.due()  # one a second
    reading = read_run(folder)
    assert (reading.live, reading.state is not None) == (True, True)
    assert (records / LIVE_FILE_NAME).stat().st_mode & 0o777 == 0o600
    os.utime(records / REQUEST_FILE, (1, 1))
    live._written = float("-inf")
    assert not live.due()


def test_the_last_state_stays_when_the_records_are_gone(tmp_path: Path) -> None:
    folder, records = run_folder(tmp_path)
    LiveFile(records, folder).write_last(msgspec.structs.replace(snapshot(folder), ended=True))
    for path in records.iterdir():
        path.unlink()
    records.rmdir()

    reading = read_run(folder)

    assert (reading.live, reading.state is not None) == (False, True)
    assert latest_run(tmp_path / "unhang-runs") == folder


@pytest.mark.parametrize("harm", ["torn", "indices", "lengths", "strange ranks"])
def test_a_state_that_cannot_be_right_is_not_shown(tmp_path: Path, harm: str) -> None:
    folder, records = run_folder(tmp_path)
    document = json.loads(msgspec.json.encode(snapshot(folder)))
    if harm == "indices":
        document["ranks"]["place"][0] = 99
    if harm == "lengths":
        document["ranks"]["step"].append(1)
    if harm == "strange ranks":
        document["groups"][0]["rank"][0] = 77
    raw = json.dumps(document)
    (records / LIVE_FILE_NAME).write_text(raw[:-20] if harm == "torn" else raw)

    assert read_run(folder).state is None


@pytest.mark.parametrize("content", [None, "{", "[1]", "{}", '{"schema": 5}', '{"schema": "unhang.bundle/1"}'])
def test_another_folder_is_bad_usage(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError):
        read_run(tmp_path)


def test_of_several_nodes_the_folder_of_this_machine_is_taken(tmp_path: Path) -> None:
    run = tmp_path / "unhang-runs" / "a"
    for name in ("h1", node_name(os.environ), "h2"):
        (run / name).mkdir(parents=True)
        (run / name / "run.json").write_text("{}")
    os.utime(run / "h1" / "run.json", (1, 1))
    os.utime(run / node_name(os.environ) / "run.json", (2, 2))

    assert run_in(run) == run / node_name(os.environ)
    assert run_in(run / "h1") == run / "h1"
    assert latest_run(tmp_path / "unhang-runs") == run / "h2"
    (run / node_name(os.environ) / "run.json").unlink()
    assert run_in(run) == run / "h2"
    assert run_in(tmp_path) == tmp_path


def test_a_pipe_among_the_files_of_a_run_is_not_waited_for(tmp_path: Path) -> None:
    folder, records = run_folder(tmp_path)
    os.mkfifo(records / LIVE_FILE_NAME)
    assert read_run(folder).state is None
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    with pytest.raises(UsageError, match="Not a regular file"):
        read_run(folder)


def test_a_plan_of_any_size_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="File too large"):
        read_run(tmp_path)


def test_who_ends_by_an_exception_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "crash").mkdir()
    for rank in (1, 2):
        (tmp_path / "crash" / f"rank_{rank}.except").touch()
    members = {rank: JobRank(rank, 100 + rank, RecordView()) for rank in range(5)}
    for rank, code in ((0, 0), (1, None), (2, 0), (3, 1)):
        members[rank].ended_ns, members[rank].exit_code = 1, code

    found = with_failed_exits(dict.fromkeys(range(5), RankActivity.OVER) | {9: RankActivity.OVER}, members, tmp_path)

    assert [rank for rank, what in found.items() if what is RankActivity.DEAD] == [1, 3]
    assert with_failed_exits({1: RankActivity.WAITING}, members, tmp_path) == {1: RankActivity.WAITING}
