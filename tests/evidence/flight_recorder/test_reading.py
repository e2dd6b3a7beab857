"""Every format of the flight recorder gives the same items; what is missing is said, never guessed."""

from __future__ import annotations

import json
import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from unhang.evidence.flight_recorder.dump_detection import looks_like_flight_recorder, looks_like_pickle
from unhang.evidence.flight_recorder.many_dumps import read_recorder_dumps
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.items import STATE_COMPLETED, STATE_SCHEDULED, RecorderDump, Signature
from unhang.findings import Unread
from unhang_lab.dump_writer import VERSIONS, json_like_torch, make_dump, make_entry, make_frames, pickle_like_torch


def read(data: bytes, source: str = "comm_lib_trace_rank_3", **options: Any) -> RecorderDump:
    recording = read_recorder_dump(data, source=source, **options)
    assert isinstance(recording, RecorderDump), recording
    return recording


def refused(data: bytes) -> str:
    item = read_recorder_dump(data, source="rank_1")
    assert isinstance(item, Unread)
    assert item.rank == 1
    return item.reason


def some_entries(torch_version: str, count: int = 5) -> list[dict[str, Any]]:
    sites = [make_frames(0, 3), make_frames(1, 3)]
    return [
        make_entry(
            torch_version,
            record_id=index,
            position=index + 1,
            frames=sites[index % 2],
            state="completed" if index < count - 1 else "scheduled",
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("torch_version", VERSIONS)
def test_every_version_since_2_2_is_read(torch_version: str) -> None:
    dump = make_dump(torch_version, some_entries(torch_version), status={"0": (5, -1, 4)})
    data = pickle_like_torch(dump)
    assert pickle.loads(data) == dump  # the writer's layout is a real pickle
    assert looks_like_flight_recorder(data[:4096])
    recording = read(data)
    assert recording.rank == 3
    assert recording.backend == "nccl"
    assert recording.format_version == VERSIONS[torch_version]
    entries = recording.entries
    assert entries.position.tolist() == [1, 2, 3, 4, 5]
    assert entries.state.tolist() == [STATE_COMPLETED] * 4 + [STATE_SCHEDULED]
    assert entries.retired.tolist() == [True] * 4 + [False]
    assert entries.stack.tolist() == [0, 1, 0, 1, 0]
    assert [frame.function for frame in entries.stacks[0]] == ["step_0", "layer_0_forward", "step_1"]
    assert (entries.created_ns > 1_700_000_000_000_000_000).all()
    assert entries.signatures[0].operation == "all_reduce"
    assert entries.signatures[0].input_sizes == ((4, 3),)
    minor = int(torch_version.split(".")[1])
    assert entries.group_names == ((("0", "default_pg"),) if minor >= 4 else (("0", ""),))
    assert entries.timeout_ms.tolist() == [600_000 if minor >= 5 else -1] * 5
    if minor >= 3:
        assert recording.groups["0"].ranks == (0, 1)
    if minor >= 5:
        assert recording.status["0"].last_completed == 4
    assert recording.library_version == ("2.29.7" if minor >= 8 else "")


@pytest.mark.parametrize("torch_version", [v for v in VERSIONS if int(v.split(".")[1]) >= 5])
def test_the_json_variant_says_the_same(torch_version: str) -> None:
    dump = make_dump(torch_version, some_entries(torch_version), status={"0": (5, -1, 4)})
    text = json_like_torch(dump).encode()
    assert looks_like_flight_recorder(text[:4096])
    recording, pickled = read(text), read(pickle_like_torch(dump))
    assert recording.status == pickled.status
    assert recording.groups == pickled.groups
    assert recording.entries.signatures == pickled.entries.signatures
    assert recording.entries.created_ns.tolist() == pickled.entries.created_ns.tolist()
    assert recording.entries.completed_ns.tolist() == pickled.entries.completed_ns.tolist()
    assert recording.entries.stack.tolist() == [-1] * 5
    assert recording.whole


def test_json_written_by_a_person_with_spaces_and_a_mark_is_read() -> None:
    dump = json.loads(json_like_torch(make_dump("2.13", some_entries("2.13"), status={"0": (5, -1, 4)})))
    recording = read(b"\xef\xbb\xbf\n" + json.dumps(dump, indent=2).encode())
    assert len(recording.entries) == 5


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_dump_pickled_again_by_python_is_read(protocol: int) -> None:
    dump = make_dump("2.13", some_entries("2.13", 1200), status={"0": (1200, -1, 1199)})
    assert len(read(pickle.dumps(dump, protocol), whole=True).entries) == 1200
    assert len(read(pickle.dumps(make_dump("2.13", some_entries("2.13", 1)), protocol)).entries) == 1


def test_a_recorder_that_was_off_still_gives_the_status_of_its_groups() -> None:
    for data in (
        pickle_like_torch(make_dump("2.9", [], status={"0": (7, -1, 6)})),
        json_like_torch(make_dump("2.9", [], status={"0": (7, -1, 6)})).encode(),
    ):
        recording = read(data)
        assert len(recording.entries) == 0
        assert recording.backend == ""
        assert (recording.status["0"].last_enqueued, recording.status["0"].last_completed) == (7, 6)


def test_gloo_dumps_with_a_nameless_group_are_read() -> None:
    entries = [
        make_entry("2.13", record_id=n, position=n + 1, operation="gloo:all_reduce", state="scheduled", retired=True)
        for n in range(3)
    ]
    dump = make_dump("2.13", entries, groups={"": ("", ())}, status={"0": (3, -1, 3)}, library_version="")
    recording = read(pickle_like_torch(dump))
    assert recording.backend == "gloo"
    assert recording.groups == {}
    assert recording.entries.group_names == (("0", "default_pg"),)
    assert not recording.only_active


@pytest.mark.parametrize(
    ("name", "backend", "operation", "peer"),
    [
        ("nccl2:all_reduce", "nccl2", "all_reduce", None),
        ("xccl:_all_gather_base", "xccl", "_all_gather_base", None),
        ("nccl:coalesced", "nccl", "coalesced", None),
        ("nccl:send 1->2", "nccl", "send", 2),
        ("nccl:recv 3<-0", "nccl", "recv", 0),
        ("brandnew:never_heard_of", "brandnew", "never_heard_of", None),
        ("no_backend", "", "no_backend", None),
        ("", "", "", None),
    ],
)
def test_any_backend_and_operation_is_taken_as_it_is_spelt(
    name: str, backend: str, operation: str, peer: int | None
) -> None:
    recording = read(pickle_like_torch(make_dump("2.15", [make_entry("2.15", operation=name)])))
    assert recording.backend == backend
    assert recording.entries.signatures[0] == Signature(operation, peer, ((4, 3),), ((4, 3),), ("float",), ("float",))


def test_point_to_point_is_counted_by_its_own_number() -> None:
    entries = [make_entry("2.13", position=9, operation="nccl:send 0->1", is_p2p=True), make_entry("2.13", position=4)]
    columns = read(pickle_like_torch(make_dump("2.13", entries))).entries
    assert columns.position.tolist() == [9, 4]
    assert columns.is_p2p.tolist() == [True, False]


def test_values_of_the_wrong_type_or_size_become_not_known() -> None:
    entry = make_entry("2.13") | {
        "record_id": 2**80,
        "pg_id": "x",
        "process_group": 5,
        "collective_seq_id": None,
        "profiling_name": 7,
        "time_created_ns": -(2**70),
        "input_sizes": [5, [1, "x", 2**70]],
        "input_dtypes": [None],
        "state": ["completed"],
        "retired": "yes",
        "is_p2p": "no",
        "frames": [5, {"name": 3, "line": "x"}],
        "timeout_ms": 1.5,
    }
    dump = make_dump("2.13", []) | {
        "entries": [entry, {}],
        "pg_config": {"0": {"ranks": "[0, 99999999999999]"}, "1": 5, "2": {"name": "b", "ranks": "__import__('os')"}},
        "pg_status": {"0": {"last_enqueued_collective": "x"}, "1": None},
    }
    for data in (pickle.dumps(dump, 2), json.dumps(dump).encode()):
        recording = read(data)
        assert len(recording.entries) >= 1
        assert recording.entries.timeout_ms[0] == -1
        assert all(config.ranks is None for config in recording.groups.values())
        assert recording.status == {}


def test_a_dump_without_its_finished_entries_is_recognised() -> None:
    entries = [make_entry("2.13", record_id=900 + n, position=n, state="scheduled") for n in range(4)]
    dump = make_dump("2.13", entries, status={"0": (4, -1, -1)})
    assert read(pickle_like_torch(dump)).only_active


@pytest.mark.parametrize("writer", [pickle_like_torch, lambda dump: json_like_torch(dump).encode()])
def test_a_torn_dump_gives_every_complete_entry_wherever_it_is_cut(writer: Any) -> None:
    dump = make_dump("2.13", some_entries("2.13", 12), status={"0": (12, -1, 11)}, comm_state={"0xab": {"rank": "3"}})
    data = writer(dump)
    whole = read(data)
    assert not whole.unread
    seen = set()
    for cut in range(1, len(data)):
        item = read_recorder_dump(data[:cut], source="rank_3")
        if isinstance(item, Unread):
            assert "\n" not in item.reason
            continue
        count = len(item.entries)
        seen.add(count)
        assert item.unread[0].reason == f"dump cut short at byte {cut}"
        assert not item.whole
        assert item.entries.position.tolist() == whole.entries.position.tolist()[:count]
        assert item.entries.state.tolist() == whole.entries.state.tolist()[:count]
    assert seen == set(range(13))


def test_what_is_no_dump_is_unread_with_one_sentence(tmp_path: Path) -> None:
    proof = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {proof}",)

    hostile = pickle.dumps(
        {"version": "2.10", "pg_config": {}, "pg_status": {"0": {}}, "entries": [make_entry(), Bomb()]}, 2
    )
    assert "posix.system" in refused(hostile)
    assert not proof.exists()
    assert "empty" in refused(b"")
    assert "neither" in refused(b"\x00\x01\x02rubbish")
    assert "not a flight-recorder dump" in refused(pickle.dumps({"weights": [1]}, 2))
    assert "not a flight-recorder dump" in refused(pickle.dumps([1, 2], 2))
    assert "not a flight-recorder dump" in refused(b'{"learning_rate": 1}')
    assert "JSON" in refused(b"[" * 100_000)
    assert "JSON" in refused(b'{"version": ' + b"9" * 100_000 + b"}")
    refused(pickle.dumps(5, 2))


def test_a_long_text_used_often_is_not_copied_as_often() -> None:
    entry = make_entry("2.13", operation="nccl:" + "n" * 300_000, dtype="F" * 300_000, sizes=[[1]] * 1000)
    dump = make_dump("2.13", [entry | {"input_sizes": [[n]]} for n in range(20)], status={"0": (1, -1, 1)})
    for data in (pickle_like_torch(dump), pickle.dumps(dump, 4)):
        tracemalloc.start()
        read(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 30 << 20


def test_more_entries_than_any_ring_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhang.evidence.flight_recorder.columns._MAX_ENTRIES", 1000)
    assert "1,000 entries" in refused(b'{"entries": [' + b"{}," * 1_000 + b"{}]}")


def test_the_first_bytes_decide_what_a_dump_is() -> None:
    assert not looks_like_flight_recorder(b"")
    assert not looks_like_flight_recorder(b"[rank3]: pg_config entries")
    assert not looks_like_flight_recorder(pickle.dumps({"weights": [1, 2]}, 2))
    assert looks_like_pickle(pickle.dumps({"weights": [1, 2]}, 2))
    assert not looks_like_flight_recorder(b'{"learning_rate": 1, "entries": []}')
    assert looks_like_flight_recorder(b'  {"pg_config": {}}')


def test_files_that_cannot_be_opened_are_unread(tmp_path: Path) -> None:
    fifo = tmp_path / "rank_1"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path / "rank_2", tmp_path):
        item = read_recorder_dump(path)
        assert isinstance(item, Unread)
        assert item.source.path == str(path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_many_dumps_are_read_in_order_whatever_is_among_them(tmp_path: Path, jobs: int) -> None:
    paths = []
    for rank in range(90):
        path = tmp_path / f"rank_{rank}"
        path.write_bytes(pickle_like_torch(make_dump("2.13", some_entries("2.13"), status={"0": (5, -1, 4)})))
        paths.append(path)
    paths[7].write_bytes(b"")
    paths[8].unlink()
    items = list(read_recorder_dumps(paths, jobs=jobs))
    assert [item.rank for item in items] == list(range(90))
    assert [index for index, item in enumerate(items) if isinstance(item, Unread)] == [7, 8]
    recordings = [item for item in items if isinstance(item, RecorderDump)]
    assert recordings[0].groups["0"] is recordings[-1].groups["0"]
    assert recordings[0].entries.stacks[0] is recordings[-1].entries.stacks[0]
    assert recordings[0].written_s is not None


def test_leaving_the_loop_early_ends_the_workers(tmp_path: Path) -> None:
    data = pickle_like_torch(make_dump("2.13", some_entries("2.13"), status={"0": (5, -1, 4)}))
    for rank in range(80):
        (tmp_path / f"rank_{rank}").write_bytes(data)
    reading = read_recorder_dumps(sorted(tmp_path.iterdir()), jobs=2)
    assert isinstance(next(iter(reading)), RecorderDump)
    reading.close()  # type: ignore[attr-defined]


def test_a_file_that_ends_its_reader_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle_like_torch(make_dump("2.13", some_entries("2.13"), status={"0": (5, -1, 4)}))
    for rank in range(70):
        (tmp_path / f"rank_{rank}").write_bytes(data)
    deadly = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from unhang.evidence.flight_recorder import workers
read = workers.read_recorder_dump
workers.read_recorder_dump = lambda name, **options: os._exit(9) if name.endswith("rank_33") else read(name, **options)
workers.serve_requests(sys.stdin.buffer, sys.stdout.buffer, whole=False)
"""
    monkeypatch.setattr("unhang.evidence.flight_recorder.workers.WORKER", deadly)
    items = list(read_recorder_dumps([tmp_path / f"rank_{rank}" for rank in range(70)], jobs=2))
    assert [item.rank for item in items] == list(range(70))
    lost = [item for item in items if isinstance(item, Unread)]
    assert [item.rank for item in lost] == [33]
    assert "exit code 9" in lost[0].reason
