"""A rank that the OOM killer ended is told from one that somebody killed; no right is needed for that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Verdict
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.machine.counters import KernelPaths
from unhang.watch.machine.memory_evidence import MemoryWatch, counter_of
from unhang.wire.record_views import RecordView

PID = 4001


class Machine:
    """A laid-out ``/proc`` and ``/sys/fs/cgroup`` with two ranks."""

    def __init__(self, root: Path, cgroup: str, counter: str, text: str = "low 0\noom_kill {}\n") -> None:
        self.places = KernelPaths(root / "proc", root / "sys", root / "kmsg", root / "kern.log", root)
        self.counter, self.text = root / "sys" / "fs" / "cgroup" / counter, text
        self.counter.parent.mkdir(parents=True)
        self.count(3)
        for pid in (PID, PID + 1):
            (self.places.proc / str(pid)).mkdir(parents=True)
            (self.places.proc / str(pid) / "cgroup").write_text(cgroup)
        self.members = {rank: JobRank(rank, PID + rank, RecordView()) for rank in (0, 1)}
        self.watch = MemoryWatch(self.places)
        self.watch.note(self.members)

    def count(self, number: int) -> None:
        self.counter.write_text(self.text.format(number))

    def end(self, rank: int, code: int) -> None:
        member = self.members[rank]
        member.ended_ns, member.ended_s, member.exit_code = time.monotonic_ns(), time.time(), code

    def verdict(self, folder: Path) -> Verdict:
        """What follows when this is all there is."""
        ends = [
            {"rank": r, "pid": m.pid, "exit_code": m.exit_code, "ended_s": m.ended_s, "host": "node-a"}
            for r, m in self.members.items()
        ]
        manifest = {"schema": "unhang.bundle/1", "world_size": 2, "processes": ends}
        (folder / "machine").mkdir(parents=True)
        (folder / "bundle.json").write_text(json.dumps(manifest))
        for name, said in (("memory.log", self.watch.lines), ("kernel.log", self.watch.kernel_lines)):
            (folder / "machine" / name).write_bytes(said(self.members))
        return diagnose(build_facts(read_evidence([str(folder)])))


V2 = ("0::/job/step\n", "job/step/memory.events")
V1 = ("4:cpu,memory:/job\n1:name=systemd:/x\n0::/\n", "memory/job/memory.oom_control")
ABOVE = ("0::/../outside/job\n", "memory.events")


@pytest.mark.parametrize(("cgroup", "counter"), [V2, V1], ids=["v2", "v1"])
def test_the_counter_of_the_ranks_memory_group_grew(cgroup: str, counter: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", cgroup, counter)
    machine.end(1, -9)
    machine.count(4)

    first = machine.verdict(tmp_path / "bundle").findings[0]

    assert (first.cause.value, first.certainty.value, first.ranks) == ("host-memory", "certain", (1,))
    assert "went from 3 to 4" in first.evidence[0].text


def test_sigkill_while_the_counter_stands_is_no_lack_of_memory(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", *V2)
    machine.end(1, -9)

    verdict = machine.verdict(tmp_path / "bundle")

    assert verdict.findings[0].cause.value == "rank-crashed"
    assert "SIGKILL" in str(verdict.findings[0].summary)


def test_another_process_of_the_group_was_killed_and_the_rank_ended_otherwise(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", *V2)
    machine.count(5)
    machine.end(1, 1)

    said = machine.watch.lines(machine.members).decode()
    assert "went from 3 to 5" in said
    assert "was killed then" not in said


def test_kills_before_the_run_and_groups_that_vanish_do_not_count(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", *V2)
    machine.counter.unlink()
    machine.end(1, -9)

    assert machine.watch.lines(machine.members) == b""


def test_the_nearest_readable_group_counts_and_the_machine_where_there_is_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", "0::/a/b/c\n", "a/memory.events")
    assert counter_of(PID, machine.places) == ("/a/b/c", machine.counter)
    machine.counter.unlink()
    assert counter_of(PID, machine.places) is None
    (machine.places.proc / "vmstat").write_text("pgfault 7\noom_kill 2\n")
    assert counter_of(PID, machine.places) == ("of this machine", machine.places.proc / "vmstat")
    assert counter_of(1, machine.places) == ("of this machine", machine.places.proc / "vmstat")


def test_the_kernels_own_line_names_the_process(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", "0::/\n", "elsewhere/memory.events")
    now_us = time.monotonic_ns() // 1000
    killed = f"Out of memory: Killed process {PID} (python) total-vm:9kB, anon-rss:8kB"
    machine.places.kernel.write_text(
        f"3,1,5,-;{killed.replace(str(PID), '77')}\n SUBSYSTEM=x\n"
        f"6,2,{now_us},-;usb 1-1: new\n3,3,{now_us},-;{killed}\n"
    )
    machine.end(0, -9)

    assert machine.watch.kernel_lines(machine.members).decode().count("Killed process") == 1
    first = machine.verdict(tmp_path / "bundle").findings[0]
    assert (first.cause.value, first.ranks) == ("host-memory", (0,))


def test_only_what_the_kernels_log_file_gained_is_taken(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", *V2)
    old = "Nov 20 08:00:00 node-a kernel: Out of memory: Killed process 12 (python)\n"
    machine.places.kernel_log.write_text(old)
    watch = MemoryWatch(machine.places)
    machine.end(0, -9)

    assert watch.kernel_lines(machine.members) == b""
    machine.places.kernel_log.write_text(old + old.replace("12", "4001"))
    assert b"process 4001" in watch.kernel_lines(machine.members)


def test_the_fault_of_a_card_is_taken_while_all_ranks_live_and_the_end_of_others_is_not(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", *V2)
    now_us = time.monotonic_ns() // 1000
    xid, other = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "Out of memory: Killed process 7 (x)"
    machine.places.kernel.write_text(f"3,1,{now_us},-;{xid}\n3,2,{now_us},-;{other}\n")

    said = machine.watch.kernel_lines(machine.members).decode()
    assert xid in said
    assert other not in said


def test_a_job_whose_ranks_live_says_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", *V2)
    machine.count(9)

    assert (machine.watch.lines(machine.members), machine.watch.kernel_lines(machine.members)) == (b"", b"")


GROUPS = Path("/sys/fs/cgroup")
HUNGRY = """
import os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist

if os.environ["RANK"] == "1":
    Path(sys.argv[1], "cgroup.procs").write_text("0")
dist.init_process_group("gloo")
for step in range(400):
    dist.all_reduce(torch.ones(8))
    time.sleep(0.02)
    if step == 100 and dist.get_rank() == 1:
        hoard = [bytearray(b"x" * (8 << 20)) for _ in range(64)]
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory group of 96 MiB of our own."""
    v1 = (GROUPS / "memory" / "memory.limit_in_bytes").exists()
    root = GROUPS / "memory" if v1 else GROUPS
    folder = root / f"unhang-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(96 << 20))
        if not v1:
            (folder / "memory.swap.max").write_text("0")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no memory group can be made here: {error}")
    yield folder
    deadline = time.monotonic() + 5
    while folder.exists() and time.monotonic() < deadline:
        with suppress(OSError):
            folder.rmdir()
        time.sleep(0.05)


@pytest.mark.job
@pytest.mark.live
def test_a_real_rank_in_a_small_memory_group(small_group: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HUNGRY)
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(tmp_path / "run")]
    command += ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(tmp_path / "train.py"), str(small_group)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )

    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    first = verdict["findings"][0]
    assert done.returncode == 1
    assert (first["cause"], first["certainty"], first["ranks"]) == ("host-memory", "certain", [1]), done.stderr
    assert "was killed then" in (tmp_path / "run" / "machine" / "memory.log").read_text()
    again = diagnose(build_facts(read_evidence([str(tmp_path / "run")])))
    assert again.findings[0].cause.value == "host-memory"
