"""What a live rank's record says, in real jobs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.inprocess.programs import Folders, base_environment
from tests.ports import free_port
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.items import RecorderDump
from unhang.wire.control import Control, ControlWriter
from unhang.wire.record_views import RecordView

pytestmark = pytest.mark.job

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
def train(steps):
    for step in range(steps):
        dist.all_reduce(torch.ones(1000)); dist.all_reduce(torch.ones(10), group=half)
        time.sleep(0.02)
dist.init_process_group("gloo")
half = dist.new_group(list(range(dist.get_world_size())), group_desc="half")
"""


@contextmanager
def job(program: str, folders: Folders, tmp_path: Path, *, ranks: int, **more: str) -> Iterator[list[subprocess.Popen]]:
    """``ranks`` processes of one program, each with its RANK; killed at the end."""
    path = tmp_path / "train.py"
    path.write_text(program)
    started = []
    port = str(free_port())
    world = more.pop("WORLD_SIZE", str(ranks))
    try:
        for rank in range(ranks):
            who = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world}
            base = base_environment(**who, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more)
            started.append(subprocess.Popen([sys.executable, str(path)], env=folders.environment(base)))
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def wait_for(folders: Folders, good: Callable[[dict[int, RecordView]], bool], limit_s: float = 80) -> dict:
    """Views by rank as soon as ``good`` says yes to them."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        views = {view.identity.rank: view for view in folders.views()}
        if good(views):
            return views
        time.sleep(0.05)
    raise AssertionError((folders.views(), folders.troubles()))


def asking(folders: Folders) -> ControlWriter:
    (folders.records / "control").unlink()
    return Control.create(folders.records)


def counted(view: RecordView) -> int:
    return max((group.enqueued for group in view.groups), default=-1)


def test_a_training_job_tells_how_far_it_is(folders: Folders, tmp_path: Path) -> None:
    control = asking(folders)
    control.now.beat_ms, control.now.collectives_per_step = 50, 1
    control.publish()

    with job(TRAIN + "train(100_000)", folders, tmp_path, ranks=2):
        views = wait_for(folders, lambda views: len(views) == 2 and all(counted(view) > 60 for view in views.values()))

    for rank, view in views.items():
        assert view.identity.world_size == 2
        assert (view.identity.rank, view.identity.local_rank, view.backend) == (rank, rank, "cpu:gloo,cuda:gloo")
        assert [(group.name, group.size, group.backend) for group in view.groups] == [
            ("0", 2, "gloo"),
            ("1", 2, "gloo"),
        ]
        assert view.recorder_on
        assert not view.in_init
        assert view.user.file == str(tmp_path / "train.py")
        assert view.user.function == "train"
        assert view.step_source == "rhythm"
        assert 0.02e9 < view.step_mean_ns < 2e9
        assert str(tmp_path / "train.py") in view.stack
        assert view.thread_id == view.identity.pid
        assert view.age_s() >= 0
        assert view.threads >= 1


def test_a_wait_in_rendezvous_is_seen(folders: Folders, tmp_path: Path) -> None:
    with job(TRAIN, folders, tmp_path, ranks=1, WORLD_SIZE="2"):
        view = wait_for(folders, lambda views: 0 in views and views[0].phase == "init" and views[0].beats > 3)[0]

    assert view.in_init
    assert view.user.function == "<module>"
    assert view.user.line == TRAIN.splitlines().index('dist.init_process_group("gloo")') + 1


def test_a_wait_for_one_rank_is_seen_from_both_sides(folders: Folders, tmp_path: Path) -> None:
    program = TRAIN + "def save(): time.sleep(60)\nif dist.get_rank() == 1: save()\ndist.all_reduce(torch.ones(3))"

    with job(program, folders, tmp_path, ranks=2):
        views = wait_for(
            folders,
            lambda views: (
                len(views) == 2
                and counted(views[0]) == 1
                and views[0].sampled_ns - views[0].since_ns > 5e8
                and views[1].user.function == "save"
            ),
        )

    waiter, laggard = views[0], views[1]
    assert waiter.phase == "communication"
    assert (waiter.user.line, waiter.top.function) == (program.count("\n") + 1, "all_reduce")
    assert (waiter.groups[0].enqueued, waiter.groups[0].completed) == (1, -1)
    assert laggard.phase != "communication"
    assert laggard.groups == [] or counted(laggard) <= 0
    assert waiter.sampled_ns - waiter.groups[0].changed_ns > 4e8


def test_dumps_come_when_asked(folders: Folders, tmp_path: Path) -> None:
    control = asking(folders)

    with job(TRAIN + "train(100_000)", folders, tmp_path, ranks=2):
        wait_for(folders, lambda views: len(views) == 2 and all(counted(view) > 20 for view in views.values()))
        wanted = control.ask_dump()
        wait_for(folders, lambda views: all(view.dump_served == wanted for view in views.values()))
        plain = [read_recorder_dump(folders.run / "dumps" / f"rank_{rank}") for rank in (0, 1)]
        wanted = control.ask_stacks(rank=1)
        views = wait_for(folders, lambda views: views[1].stacks_served == wanted)
        # before the job ends: a rank that falls because another did writes its dump anew
        with_stacks = (folders.run / "dumps" / "rank_1").read_bytes()

    for dump in (*plain, read_recorder_dump(with_stacks)):
        assert isinstance(dump, RecorderDump)
    assert views[0].stacks_served == 0
    assert views[1].dump_result == "written"
    assert b"all_reduce" in with_stacks
    assert b"train.py" in with_stacks
    assert b"train.py" not in (folders.run / "dumps" / "rank_0").read_bytes()
    assert sorted(path.name for path in (folders.run / "dumps").iterdir()) == ["rank_0", "rank_1"]


@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_groups_keep_their_names_when_some_are_gone(debug: str, folders: Folders, tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
gone = dist.new_group([0]); dist.all_reduce(torch.ones(1), group=gone); dist.destroy_process_group(gone)
last = dist.new_group([0], group_desc="last")
for _ in range(60): dist.all_reduce(torch.ones(1), group=half)
for _ in range(7): dist.all_reduce(torch.ones(1), group=last)
time.sleep(60)
"""
    )

    with job(program, folders, tmp_path, ranks=1, TORCH_DISTRIBUTED_DEBUG=debug):
        view = wait_for(folders, lambda views: 0 in views and any(group.enqueued == 7 for group in views[0].groups))[0]

    last = "3" if debug == "OFF" else next(group.name for group in view.groups if group.enqueued == 7)
    assert {group.name: group.enqueued for group in view.groups if group.enqueued >= 7} == {"1": 60, last: 7}


def test_a_recorder_the_user_turned_off_stays_off(folders: Folders, tmp_path: Path) -> None:
    control = asking(folders)
    control.ask_dump()

    with job(TRAIN + "train(100_000)", folders, tmp_path, ranks=1, TORCH_FR_BUFFER_SIZE="0"):
        view = wait_for(folders, lambda views: 0 in views and views[0].dump_served == 1 and views[0].beats > 5)[0]

    assert not view.recorder_on
    assert view.groups == []
    assert view.dump_result == "recorder off"


def test_the_thread_that_trains_is_found_when_main_only_waits(folders: Folders, tmp_path: Path) -> None:
    program = (
        TRAIN
        + """
import threading
def work():
    if dist.get_rank() == 1: time.sleep(60)
    dist.all_reduce(torch.ones(3))
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    )

    with job(program, folders, tmp_path, ranks=2):
        # not the main thread, which communicates as it makes the second group
        view = wait_for(folders, lambda views: len(views) == 2 and views[0].user.function == "work")[0]

    assert view.phase == "communication"
    assert view.thread_id not in (0, view.identity.pid)


def test_a_stopped_and_a_killed_rank_leave_readable_records(folders: Folders, tmp_path: Path) -> None:
    with job(TRAIN + "train(100_000)", folders, tmp_path, ranks=2) as ranks:
        wait_for(folders, lambda views: len(views) == 2 and all(counted(view) > 5 for view in views.values()))
        os.kill(ranks[0].pid, signal.SIGSTOP)
        os.kill(ranks[1].pid, signal.SIGKILL)
        ranks[1].wait()
        time.sleep(0.7)
        views = wait_for(folders, lambda views: len(views) == 2)

    assert all(view.age_s() > 0.5 for view in views.values())
    assert all(not view.ended for view in views.values())


def test_an_orderly_end_says_so(folders: Folders, tmp_path: Path) -> None:
    with job(TRAIN + "train(3)\ndist.destroy_process_group()\ntime.sleep(0.6)", folders, tmp_path, ranks=1) as (rank,):
        wait_for(folders, lambda views: 0 in views and views[0].closed)
        assert rank.wait(timeout=60) == 0

    view = folders.view()
    assert view.exiting
    assert view.ended
    assert not view.gave_up


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if (
        os.geteuid() != 0
        or not shutil.which("mount")
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.parametrize("leave", [0, 4096, 12288])
def test_a_full_disk_is_no_reason_to_stop(tiny_disk: Path, folders: Folders, tmp_path: Path, leave: int) -> None:
    (tiny_disk / "births").mkdir()
    (tiny_disk / "ballast").write_bytes(b"\0" * (65536 - leave))
    full = Folders(tiny_disk, tiny_disk)

    with job(TRAIN + "train(30)\nsys.exit(5)", full, tmp_path, ranks=1) as (rank,):
        assert rank.wait(timeout=60) == 5

    assert full.views() == []


def test_a_disk_that_fills_up_later_is_no_reason_to_stop(tiny_disk: Path, folders: Folders, tmp_path: Path) -> None:
    (tiny_disk / "births").mkdir()
    control = Control.create(tiny_disk)
    full = Folders(tiny_disk, tiny_disk)

    over = tmp_path / "over"
    program = TRAIN + f"while not os.path.exists({str(over)!r}): train(10)\nsys.exit(5)"

    with job(program, full, tmp_path, ranks=1) as (rank,):
        wait_for(full, lambda views: 0 in views and counted(views[0]) > 10)
        with (tiny_disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(b"\0" * 4096):
                    pass
            except OSError:
                pass
        control.ask_dump()
        wait_for(full, lambda views: views[0].dump_served == 1)
        assert full.view().dump_result == "could not write"
        over.touch()
        assert rank.wait(timeout=60) == 5

    assert full.view().ended


def test_our_thread_costs_next_to_nothing(folders: Folders, tmp_path: Path) -> None:
    """Bounds wide enough for a busy machine; ``benchmarks/inprocess.py`` measures. Here: notice a beat gone heavy."""
    program = TRAIN + "m = torch.nn.Linear(300, 300)\nfor _ in range(10**6): m(torch.ones(64, 300)).sum().backward()"

    with job(program, folders, tmp_path, ranks=1):
        before = wait_for(folders, lambda views: 0 in views and views[0].beats > 3)[0]
        after = wait_for(folders, lambda views: views[0].beats > before.beats + 12)[0]

    share = (after.beat_cost_ns - before.beat_cost_ns) / (after.beat_ns - before.beat_ns)
    assert share < 0.005
    assert after.longest_beat_ns < 5e6


def test_the_partner_of_a_receive_is_known_of_each_turn_of_a_loop(folders: Folders, tmp_path: Path) -> None:
    program = TRAIN + (
        "me = dist.get_rank()\n"
        "if me == 1: dist.send(torch.ones(3), dst=0)\n"
        "for other in [1, 2] if me == 0 else []: dist.recv(torch.ones(3), src=other)\n"
        "dist.barrier()" + " if me != 2 else time.sleep(60)"
    )

    with job(program, folders, tmp_path, ranks=3):
        views = wait_for(folders, lambda views: len(views) == 3 and views[0].partner == 2)

    assert (views[1].partner, views[2].partner) == (-1, -1)
