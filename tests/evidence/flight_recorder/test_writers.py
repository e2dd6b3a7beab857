"""Whoever wrote a dump, it says the same, costs little, and can harm nothing but the process that reads it."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.work import calls_of
from unhang.evidence.flight_recorder import many_dumps, workers
from unhang.evidence.flight_recorder.dump_detection import looks_like_flight_recorder
from unhang.evidence.flight_recorder.many_dumps import read_recorder_dumps
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.flight_recorder.workers import limited_process, memory_limit_works, read_sandboxed, unpickled
from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import RecorderDump, RecorderEntries
from unhang.evidence.worker_process import ItemUnpickler
from unhang.findings import Unread
from unhang_lab.dump_writer import StalledJob, json_like_torch, pickle_like_torch

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its limits")
NUMBERS = [
    "record_id",
    "pg_id",
    "group",
    "position",
    "is_p2p",
    "signature",
    "state",
    "retired",
    "created_ns",
    "started_ns",
    "completed_ns",
    "timeout_ms",
]


def columns(entries: RecorderEntries, *, frames: bool) -> dict[str, Any]:
    """Every column but where an entry stands in its file, and every table."""
    told: dict[str, Any] = {name: getattr(entries, name).tolist() for name in NUMBERS}
    if frames:
        told["stack"] = [entries.stacks[index] if index >= 0 else None for index in entries.stack]
    return told | {"groups": entries.group_names, "signatures": entries.signatures}


def said(recording: RecorderDump | Unread, *, frames: bool = True) -> dict[str, Any]:
    assert isinstance(recording, RecorderDump), recording
    return columns(recording.entries, frames=frames) | {
        name: getattr(recording, name)
        for name in ("rank", "backend", "format_version", "groups", "status", "whole", "dropped", "only_active")
    }


def shuffled(dump: Any) -> Any:
    """The same with its keys in another order, the status behind the entries."""
    if isinstance(dump, list):
        return [shuffled(one) for one in dump]
    if not isinstance(dump, dict):
        return dump
    keys = sorted(dump, key=lambda key: (key == "pg_status", key[::-1]))
    return {key: shuffled(dump[key]) for key in keys}


def with_more_keys(dump: dict[str, Any]) -> dict[str, Any]:
    entries = [{"node": "n1", **entry, "extra": {"nested": [1, (2, None)]}} for entry in dump["entries"]]
    return {"collected_by": {"host": "n1", "at": 1.5}, **dump, "entries": entries, "more": [b"raw", {3: 4}]}


def unshared(dump: dict[str, Any]) -> dict[str, Any]:
    """As a collector holds it that went through JSON: no object is shared."""
    plain: dict[str, Any] = json.loads(json.dumps(dump))
    return plain


Writer = Callable[[Any], bytes]
WRITERS: dict[str, Writer] = {
    **{f"protocol {protocol}": lambda dump, p=protocol: pickle.dumps(dump, p) for protocol in range(6)},  # type: ignore[misc]
    **{f"other order, protocol {p}": lambda dump, p=p: pickle.dumps(shuffled(dump), p) for p in (0, 2, 5)},  # type: ignore[misc]
    "more keys": lambda dump: pickle.dumps(with_more_keys(dump), 4),
    "more keys, torch's layout": lambda dump: pickle_like_torch(
        dump | {"entries": [entry | {"extra": 1} for entry in dump["entries"]]}
    ),
    "nothing shared": lambda dump: pickle.dumps(unshared(dump), 4),
    "in Python, without C": lambda dump: pickle._dumps(dump, 2),  # type: ignore[attr-defined]
}


@pytest.fixture(scope="module")
def late_and_not() -> list[Any]:
    """The laggard's dump and another rank's, as plain objects."""
    job = StalledJob(ranks=8, entries=400, frames=4, laggard=1)
    return [pickle.loads(data) for _, data in job.dumps(2)]


@pytest.fixture
def everything_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_dumps, "_INLINE_BYTES", 0)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The processes started for reading; all of them are over in the end."""
    processes: list[subprocess.Popen[bytes]] = []

    class Counted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    yield processes
    assert all(process.poll() is not None for process in processes)


def files(folder: Path, contents: list[bytes]) -> list[Path]:
    paths = [folder / f"comm_lib_trace_rank_{rank}" for rank in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


@pytest.mark.parametrize("way", ["here", "worker"])
def test_every_writer_says_what_torchs_own_layout_says(
    tmp_path: Path, late_and_not: list[Any], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_dumps, "_INLINE_BYTES", 0 if way == "worker" else 1 << 30)
    truth = [read_recorder_dump(pickle_like_torch(dump), source=f"rank_{n}") for n, dump in enumerate(late_and_not)]
    assert not any(one.whole for one in truth if isinstance(one, RecorderDump)), "the ends are compared"
    paths = {}
    for number, (writer, write) in enumerate(WRITERS.items()):
        data = [write(dump) for dump in late_and_not]
        assert all(looks_like_flight_recorder(one[: 1 << 16]) for one in data), writer
        (tmp_path / str(number)).mkdir()
        paths[writer] = files(tmp_path / str(number), data)

    items = read_recorder_dumps([path for pair in paths.values() for path in pair])

    for writer in paths:
        assert [said(next(items)), said(next(items))] == [said(one) for one in truth], writer


@pytest.mark.parametrize("way", ["here", "worker"])
def test_json_says_what_the_pickle_says_without_its_frames(
    tmp_path: Path, late_and_not: list[Any], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_dumps, "_INLINE_BYTES", 0 if way == "worker" else 1 << 30)
    truth = [read_recorder_dump(pickle_like_torch(dump), source=f"rank_{n}") for n, dump in enumerate(late_and_not)]

    got = list(read_recorder_dumps(files(tmp_path, [json_like_torch(dump).encode() for dump in late_and_not])))

    assert [said(one, frames=False) for one in got] == [said(one, frames=False) for one in truth]


@pytest.mark.usefixtures("everything_to_workers")
def test_every_version_of_torch_is_read_alike_whoever_wrote_it(tmp_path: Path) -> None:
    written: dict[str, list[bytes]] = {}
    for torch_version in (f"2.{minor}" for minor in range(3, 16)):
        job = StalledJob(ranks=8, entries=100, frames=3, torch_version=torch_version)
        dump = job.head(0, late=False) | {"entries": job.recorded(0, late=False)}
        written[torch_version] = [pickle_like_torch(dump), pickle.dumps(dump, 4), pickle.dumps(dump, 0)]

    items = read_recorder_dumps(files(tmp_path, [data for three in written.values() for data in three]))

    for torch_version, three in written.items():
        truth = said(read_recorder_dump(three[0], source="rank_0"))
        for item in (next(items), next(items), next(items)):
            assert said(item) | {"rank": 0} == truth, torch_version


def test_the_bare_list_of_torch_2_2_pickled_again_is_read(tmp_path: Path, everything_to_workers: None) -> None:
    entries = StalledJob(ranks=8, entries=100, frames=3, torch_version="2.2").recorded(0, late=False)
    data = [pickle_like_torch(entries), *(pickle.dumps(entries, protocol) for protocol in range(6))]
    assert all(looks_like_flight_recorder(one[: 1 << 16]) for one in data)

    got = [said(item) | {"rank": 0} for item in read_recorder_dumps(files(tmp_path, data))]

    assert all(one == got[0] for one in got)
    assert len(got[0]["record_id"]) == 100


def test_short_dumps_of_others_start_no_process_and_long_ones_one(
    tmp_path: Path, late_and_not: list[Any], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(late_and_not[0], 4)
    paths = files(tmp_path, [data] * 20)
    monkeypatch.setattr(many_dumps, "_INLINE_BYTES", 20 * len(data))
    assert all(isinstance(item, RecorderDump) for item in read_recorder_dumps(paths))
    assert not started

    monkeypatch.setattr(many_dumps, "_INLINE_BYTES", 12 * len(data))
    items = [item for item in read_recorder_dumps(paths) if isinstance(item, RecorderDump)]
    assert len(items) == 20
    assert len(started) == 1
    assert items[0].entries.stacks[0] is items[-1].entries.stacks[0], "what is equal is kept once, whoever read it"


def test_dumps_in_an_archive_share_one_process(
    tmp_path: Path, late_and_not: list[Any], started: list[Any], everything_to_workers: None
) -> None:
    with tarfile.open(tmp_path / "dumps.tar", "w") as archive:
        for rank, content in enumerate([pickle.dumps(late_and_not[0], 4), b"\x80\x04pg_config" * 9, b"[", b"{}"] * 2):
            member = tarfile.TarInfo(f"comm_lib_trace_rank_{rank}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    evidence = read_evidence([str(tmp_path / "dumps.tar")])

    assert [one.rank for one in evidence.recorder_dumps] == [0, 4]
    assert said(evidence.recorder_dumps[0]) | {"rank": 4} == said(evidence.recorder_dumps[1])
    assert len(started) == 1


@pytest.mark.usefixtures("everything_to_workers")
def test_a_torn_dump_of_another_writer_is_read_up_to_the_tear(tmp_path: Path, late_and_not: list[Any]) -> None:
    generator = random.Random(13)
    contents = []
    for protocol in range(6):
        data = pickle.dumps(late_and_not[0], protocol)
        contents += [data[: generator.randrange(len(data) // 3, len(data))] for _ in range(3)]
    text = json_like_torch(late_and_not[0]).encode()
    contents += [text[: len(text) // 2]]

    for content, item in zip(contents, read_recorder_dumps(files(tmp_path, contents)), strict=True):
        assert isinstance(item, RecorderDump)
        here = read_recorder_dump(content, source=item.source.path)
        assert said(item) == said(here)
        assert item.unread[0].reason == f"dump cut short at byte {len(content)}"
        assert not item.whole
        assert len(item.entries) > 40, "each was cut behind its first third"


@LINUX
def test_reading_costs_little_more_than_unpickling_and_parsing() -> None:
    """Some calls an entry: our own machine makes three hundred, and a row for each entry a dozen."""
    [(_, content)] = StalledJob(ranks=8, frames=8).dumps(1)
    dump = pickle.loads(content)
    at_most = 5 * len(dump["entries"])
    for protocol in (2, 4):
        data = pickle.dumps(dump, protocol)
        read_recorder_dump(data, others=read_sandboxed)  # what is made once
        assert calls_of(lambda data=data: read_recorder_dump(data, others=read_sandboxed)) < at_most  # type: ignore[misc]
    text = json_like_torch(dump).encode()
    assert calls_of(lambda: read_recorder_dump(text)) < at_most


# what harms


def deep_key() -> bytes:
    """Tuples in tuples as a key: hashing them overflows the stack of C."""
    return b"\x80\x02}(X\x07\x00\x00\x00versionX\x01\x00\x00\x002)" + b"\x85" * 3_000_000 + b"Nu."


def colliding(count: int) -> bytes:
    """Numbers that all fall on the same place of a hash table."""
    prime = (1 << 61) - 1
    keys = b"".join(b"\x8a\x0a" + (n * prime).to_bytes(10, "little", signed=True) + b"N" for n in range(1, count))
    return b"\x80\x02}(X\x07\x00\x00\x00versionX\x01\x00\x00\x002" + keys + b"u."


HARMFUL = {
    "tuples in tuples as a key": (deep_key(), "signal|refused|deeper"),
    "numbers that collide": (colliding(120_000), "processor time"),
    "containers without end": (b"\x80\x04" + b"\x8f" * 6_000_000 + b".", "refused"),
    "lists without end": (b"\x80\x02](" + b"]" * 30_000_000 + b"e.", "refused"),
    "lists without end in JSON": (b'{"pg_config": [' + b"[]," * 20_000_000 + b"[]]}", "refused"),
    "lists in lists": (b"\x80\x02" + b"](" * 2_000_000 + b"e" * 2_000_000 + b".", "not a flight-recorder dump"),
    "a slot of gigabytes": (b"\x80\x02}r\xff\xff\xff\xff.", "not a flight-recorder dump"),
    "bytes of gigabytes": (b"\x80\x05\x96\x00\x00\x00\x00\x02\x00\x00\x00.", "BYTEARRAY8"),
    "text of an exabyte": (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x0f.", "cut short"),
    "a number of a megabyte": (b"\x80\x02\x8b\x00\x00\x10\x00" + b"\x7f" * (1 << 20) + b".", "a flight-recorder dump"),
    "digits of a megabyte": (b"(dp0\nVversion\nL" + b"9" * (1 << 20) + b"L\ns.", "refused"),
    "a call": (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", "os.system"),
    "a call by the stack": (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "os.system"),
    "an instance": (b"(ios\nsystem\n.", "os.system"),
    "an object of the outside": (b"\x80\x02K\x01Q.", "BINPERSID"),
    "a registered class": (b"\x80\x02\x82\x01.", "EXT1"),
    "a state for a dict": (b"\x80\x02}}b.", "BUILD"),
}


@LINUX
@pytest.mark.usefixtures("everything_to_workers")
@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_dump_costs_itself_only(
    tmp_path: Path, late_and_not: list[Any], name: str, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = workers.WORKER.replace(
        "serve_requests(sys",
        "from unhang.evidence.flight_recorder import workers as bounds\nbounds._CPU_FLOOR_S = 1\nserve_requests(sys",
    )
    monkeypatch.setattr(workers, "WORKER", hasty)
    content, reason = HARMFUL[name]
    good = pickle.dumps(late_and_not[0], 4)

    items = list(read_recorder_dumps(files(tmp_path, [good, content, good])))

    assert [type(item) for item in items] == [RecorderDump, Unread, RecorderDump]
    assert re.search(reason, items[1].reason), items[1].reason  # type: ignore[union-attr]
    assert items[1].rank == 1
    assert len(started) <= 3


@LINUX
@pytest.mark.usefixtures("everything_to_workers")
def test_what_a_dump_makes_python_complain_of_is_not_shown(
    tmp_path: Path, late_and_not: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """A length that cannot be: CPython prints that it deallocates a bytearray it never made."""
    torn = b"\x96" + (7_592_901_227_503_943_685).to_bytes(8, "little")
    dumps = [pickle.dumps(late_and_not[0], protocol)[:-1] + torn for protocol in (2, 4, 5)] * 3

    items = list(read_recorder_dumps(files(tmp_path, dumps)))

    assert {type(item) for item in items} == {Unread}
    assert capfd.readouterr().err == ""


@LINUX
def test_nothing_is_run_by_the_unpickler_itself(tmp_path: Path) -> None:
    proof = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {proof}",)

    for protocol in range(6):
        assert unpickled(pickle.dumps({"version": "2.10", "entries": [Bomb()]}, protocol)) is None
    assert not proof.exists()
    assert unpickled(pickle.dumps({"version": "2.10"}, 4)) == {"version": "2.10"}


@LINUX
def test_within_bounds_memory_is_refused_and_given_back_after_it() -> None:
    assert memory_limit_works()
    with pytest.raises(MemoryError), limited_process(1000):
        bytearray(300 << 20)
    assert len(bytearray(300 << 20)) == 300 << 20


def test_where_no_limits_hold_our_own_machine_reads(
    tmp_path: Path, late_and_not: list[Any], everything_to_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlimited = workers.WORKER.replace(
        "serve_requests(sys",
        "from unhang.evidence.flight_recorder import workers\n"
        "workers.memory_limit_works, workers.read_sandboxed = lambda: False, None\nserve_requests(sys",
    )
    monkeypatch.setattr(workers, "WORKER", unlimited)
    [item] = read_recorder_dumps(files(tmp_path, [pickle.dumps(late_and_not[0], 4)]))
    assert said(item) == said(read_recorder_dump(pickle_like_torch(late_and_not[0]), source="rank_0"))


@pytest.mark.parametrize("executable", ["", "/nowhere/python"])
def test_without_a_python_to_start_dumps_are_read_here(
    tmp_path: Path,
    late_and_not: list[Any],
    everything_to_workers: None,
    executable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    data = pickle.dumps(late_and_not[0], 4)
    for paths in (files(tmp_path, [data] * 3), files(tmp_path, [data] * 100)):
        assert all(isinstance(item, RecorderDump) for item in read_recorder_dumps(paths))
    reader = many_dumps.SingleDumpReader()
    assert isinstance(reader.read(data, source="rank_0"), RecorderDump)
    reader.close()


@pytest.mark.usefixtures("everything_to_workers")
def test_a_dump_that_is_not_read_in_time_is_given_up(
    tmp_path: Path, late_and_not: list[Any], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_ANSWER_LIMIT_S", 10.0)  # to start on a busy machine, too
    monkeypatch.setattr(workers, "_LOADED", 0)
    stuck = workers.WORKER.replace(
        "serve_requests(sys",
        "import time\nfrom unhang.evidence.flight_recorder import workers\nread = workers.read_recorder_dump\n"
        "workers.read_recorder_dump = lambda data, **told: time.sleep(60) if told['source'].endswith('_1') "
        "else read(data, **told)\nserve_requests(sys",
    )
    monkeypatch.setattr(workers, "WORKER", stuck)
    good = pickle.dumps(late_and_not[0], 4)
    items = list(read_recorder_dumps(files(tmp_path, [good, good, good])))
    assert [type(item) for item in items] == [RecorderDump, Unread, RecorderDump]
    assert items[1].reason == "not read within 10 s"  # type: ignore[union-attr]


def test_json_read_in_pieces_is_the_same_dump(late_and_not: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = json_like_torch(late_and_not[0]).encode()
    at_once = read_recorder_dump(text, source="rank_0")
    monkeypatch.setattr("unhang.evidence.flight_recorder.json_text._AT_ONCE", 0)
    assert said(read_recorder_dump(text, source="rank_0"), frames=False) == said(at_once, frames=False)


@pytest.mark.usefixtures("everything_to_workers")
def test_a_worker_that_answers_with_something_else_is_ended(
    tmp_path: Path, late_and_not: list[Any], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    harmed = workers.WORKER.replace(
        "serve_requests(sys",
        "import os\nfrom unhang.evidence.flight_recorder import workers\nread = workers.read_recorder_dump\n"
        "class Bomb:\n    def __reduce__(self):\n        return os.system, ('true',)\n"
        "workers.read_recorder_dump = lambda data, **told: Bomb() if told['source'].endswith('_1') "
        "else read(data, **told)\nserve_requests(sys",
    )
    monkeypatch.setattr(workers, "WORKER", harmed)
    good = pickle.dumps(late_and_not[0], 4)
    items = list(read_recorder_dumps(files(tmp_path, [good, good, good])))
    assert [type(item) for item in items] == [RecorderDump, Unread, RecorderDump]
    assert items[1].reason == "the process reading it ended (signal SIGKILL)"  # type: ignore[union-attr]


@pytest.mark.parametrize("protocol", [4, 5])
def test_of_a_workers_answer_nothing_but_items_is_taken(protocol: int, late_and_not: list[Any]) -> None:
    item = read_recorder_dump(pickle_like_torch(late_and_not[0]), source="rank_0")
    again = ItemUnpickler(io.BytesIO(pickle.dumps([item], protocol)), workers.ANSWER_TYPES).load()
    assert said(again[0]) == said(item)

    class Bomb:
        def __init__(self, call: Any) -> None:
            self.call = call

        def __reduce__(self) -> Any:
            return self.call, ("true",)

    for call in (os.system, eval, subprocess.Popen):
        with pytest.raises(pickle.UnpicklingError, match="a worker answered with"):
            ItemUnpickler(io.BytesIO(pickle.dumps([item, Bomb(call)], protocol)), workers.ANSWER_TYPES).load()
