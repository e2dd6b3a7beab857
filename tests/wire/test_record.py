"""A record is readable whatever happens to its writer, and never a traceback for its reader."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from unhang.findings import Phase
from unhang.wire.control import Control
from unhang.wire.process_registration import read_registrations
from unhang.wire.rank_ranges import format_ranks, parse_ranks
from unhang.wire.record import SLOT_AT, RecordWriter, read_record, read_records
from unhang.wire.record_views import (
    PHASES,
    CodeLine,
    GroupProgress,
    GuardWait,
    MarkedPhase,
    RankIdentity,
    RecordView,
    TimeSpent,
)

WHO = RankIdentity(pid=77, rank=3, local_rank=1, world_size=8, attempt=2, armed_ns=5, python="3.11.7", torch="2.13.0")


def full_view() -> RecordView:
    """Every field as big as it gets."""
    place = CodeLine("/" + "f" * 255, 123456, "n" * 96)
    return RecordView(
        identity=WHO,
        in_init=True,
        closed=True,
        exiting=True,
        recorder_on=True,
        backend="cpu:gloo,nccl",
        beat_ns=10**15,
        beat_wall_ns=1795251315336063296,
        beats=2**62,
        thread_id=99,
        threads=12,
        phase="save",
        stack_hash=2**64 - 1,
        since_ns=4,
        sampled_ns=6,
        user=place,
        top=place,
        stack="s" * 2400,
        step_source="rhythm",
        steps=1234,
        collectives_per_step=7,
        last_step_ns=8,
        step_mean_ns=25e6,
        step_durations_ns=list(range(32)),
        dump_served=2,
        stacks_served=1,
        dumped_ns=9,
        dump_result="written",
        dump_cost_ns=3,
        groups=[GroupProgress("g" * 47 + str(n % 10), 8, n, n - 1, n - 2, 77, True, "nccl") for n in range(32)],
        mark=MarkedPhase("l" * 48, "eval", 2**62, 2**62),
        wait=GuardWait("w" * 48, tuple(range(0, 68, 2)), 2**62),
        spent=[TimeSpent("p" * 31 + str(n), 2**62, 2**31) for n in range(8)],
    )


def test_the_phases_are_those_of_findings() -> None:
    assert tuple(phase.value for phase in Phase) == (*PHASES, "forward", "backward", "optimizer")


def test_everything_written_is_read_back(tmp_path: Path) -> None:
    record = RecordWriter.create(tmp_path / "2.77.rec", WHO)
    record.now = full_view()

    record.publish()

    assert read_record(tmp_path / "2.77.rec") == full_view()
    json.dumps(asdict(full_view()))


def test_ranks_of_a_wait_are_told_in_few_characters() -> None:
    assert format_ranks((5, 3, 4, 0, 9), 96) == "0,3-5,9"
    assert parse_ranks("0,3-5,9") == (0, 3, 4, 5, 9)
    assert parse_ranks(format_ranks(range(0, 1000, 2), 96)) == tuple(range(0, 68, 2))
    assert parse_ranks("") == parse_ranks("1,x") == parse_ranks("-3") == ()
    assert len(parse_ranks("0-99999999999")) == 4096


def test_a_new_record_already_says_who_it_is(tmp_path: Path) -> None:
    RecordWriter.create(tmp_path / "a.rec", WHO)

    assert read_record(tmp_path / "a.rec") == RecordView(identity=WHO)


def test_files_are_private_and_their_space_is_reserved(tmp_path: Path) -> None:
    RecordWriter.create(tmp_path / "a.rec", WHO)
    Control.create(tmp_path)

    for name in ("a.rec", "control"):
        state = (tmp_path / name).stat()
        assert stat.S_IMODE(state.st_mode) == 0o600
        assert state.st_blocks * 512 >= state.st_size


def test_too_much_is_cut_and_paths_keep_their_end(tmp_path: Path) -> None:
    record = RecordWriter.create(tmp_path / "a.rec", WHO)
    record.now = full_view()
    record.now.user = CodeLine("/x" * 400 + "/train.py", 3, "main")
    record.now.stack = "é" * 9000
    record.now.groups *= 4
    record.now.step_durations_ns = list(range(100))

    record.publish()

    view = read_record(tmp_path / "a.rec")
    assert view is not None
    assert view.user.file.endswith("/x/train.py")
    assert len(view.stack) == 4000
    assert len(view.groups) == 32
    assert view.step_durations_ns == list(range(68, 100))


@pytest.mark.parametrize("damage", ["empty", "short", "foreign", "later layout", "folder", "missing", "fifo"])
def test_what_is_no_record_is_none(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.rec"
    RecordWriter.create(path, WHO)
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "fifo":
        os.mkfifo(path)
    elif damage != "missing":
        data[8] += damage == "later layout"
        data[0] += damage == "foreign"
        path.write_bytes(b"" if damage == "empty" else data[:9000] if damage == "short" else data)

    assert read_record(path) is None


def test_random_damage_never_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    record = RecordWriter.create(path, WHO)
    record.now = full_view()
    record.publish()
    whole = path.read_bytes()
    dice = random.Random(3)

    for _ in range(200):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 40)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        view = read_record(path)
        assert view is None or isinstance(asdict(view), dict)


def test_a_write_cut_short_leaves_the_beat_before_it(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    record = RecordWriter.create(path, WHO)
    record.now.beats = 1
    record.publish()
    record.now.beats = 2
    record.publish()
    data = bytearray(path.read_bytes())
    newest = next(at for at in SLOT_AT if int.from_bytes(data[at : at + 8], "little") == 3)

    data[newest + 40] ^= 255  # a byte of the newest slot did not arrive
    path.write_bytes(data)

    view = read_record(path)
    assert view is not None
    assert view.beats == 1


HAMMER = """
import sys
from pathlib import Path
from unhang.wire.record import RecordWriter
from unhang.wire.record_views import GroupProgress, RankIdentity
record = RecordWriter.create(Path(sys.argv[1]), RankIdentity(pid=1))
print("go", flush=True)
n = 0
while True:
    n += 1
    record.now.beats = n
    record.now.stack = str(n) * (1 + n % 300)
    record.now.groups = [GroupProgress(str(n), n, n, n, n) for _ in range(n % 32)]
    record.publish()
"""


@pytest.fixture
def hammer(tmp_path: Path):
    writer = subprocess.Popen([sys.executable, "-c", HAMMER, str(tmp_path / "a.rec")], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    yield writer
    writer.kill()
    writer.wait()
    writer.stdout.close()


def assert_of_one_piece(view: RecordView) -> None:
    assert view.stack[: len(str(view.beats))] == (str(view.beats) if view.beats else "")
    assert {group.name for group in view.groups} <= {str(view.beats)}
    assert {group.enqueued for group in view.groups} <= {view.beats}


def test_a_reader_beside_a_hammering_writer_sees_whole_beats_that_never_go_back(hammer, tmp_path: Path) -> None:
    seen, missed, last = 0, 0, 0
    least, until = time.monotonic() + 0.7, time.monotonic() + 60
    while (seen <= 50 or time.monotonic() < least) and time.monotonic() < until:
        view = read_record(tmp_path / "a.rec")
        if view is None:
            missed += 1
            continue
        assert_of_one_piece(view)
        assert view.beats >= last
        seen, last = seen + 1, view.beats

    assert seen > 50
    assert missed <= seen


def test_a_killed_writer_leaves_a_readable_record(tmp_path: Path) -> None:
    for turn in range(8):
        path = tmp_path / f"{turn}.rec"
        writer = subprocess.Popen([sys.executable, "-c", HAMMER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(random.Random(turn).random() * 0.05)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()

        view = read_record(path)
        assert view is not None
        assert_of_one_piece(view)


def test_requests_reach_the_ranks(tmp_path: Path) -> None:
    assert Control.open_read(tmp_path) is None
    writer = Control.create(tmp_path)
    reader = Control.open_read(tmp_path)
    assert reader is not None
    assert reader.read() == Control()

    writer.ask_dump()
    writer.ask_dump()
    writer.now.beat_ms, writer.now.watcher_pid = 50, 4242
    writer.ask_stacks(rank=0)

    assert reader.read() == Control(dump_request=2, stacks_request=1, stacks_rank=0, beat_ms=50, watcher_pid=4242)


def test_a_torn_request_is_the_one_before(tmp_path: Path) -> None:
    writer = Control.create(tmp_path)
    reader = Control.open_read(tmp_path)
    assert reader is not None
    writer.ask_dump()
    assert reader.read().dump_request == 1
    with (tmp_path / "control").open("r+b") as file:
        file.seek(24)
        file.write(b"\xff")

    assert reader.read().dump_request == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"pid": 1}', b"\xff\xfe", b"[" * 70000])
def test_a_broken_birth_is_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "births").mkdir()
    (tmp_path / "births" / "0.1.json").write_bytes(content)

    assert read_registrations(tmp_path) == []


def test_folders_that_are_missing_hold_nothing(tmp_path: Path) -> None:
    assert read_registrations(tmp_path / "no") == []
    assert read_records(tmp_path / "no") == {}
