"""Real faults of the machine under real jobs: a limit on one rank's processors, a neighbour, a full or slow disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.job, pytest.mark.live, pytest.mark.timeout(400)]
PROGRAM = Path(__file__).with_name("machine_job.py")
ROOT = Path("/sys/fs/cgroup")
NEIGHBOUR = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    pass
"""
NEIGHBOURS = 10
"""In sessions of their own: the kernel shares a processor out among sessions first."""


def run(tmp_path: Path, shape: str, seconds: int, **options: Path) -> tuple[dict[str, Any], str]:
    """(the first finding, what was printed) of a job under ``unhang run``; ``options``: of the program."""
    program = shutil.copy(PROGRAM, tmp_path / "train.py")
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(tmp_path / "run")]
    command += ["--slow-after", "7"]
    command += ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(program), shape, str(seconds)]
    command += [word for name, path in options.items() for word in (f"--{name}", str(path))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 120, check=False, env=environment, cwd=tmp_path
    )
    verdict = tmp_path / "run" / "verdict.json"
    if done.returncode == 0:  # what was said of a wait that ended is history once the job has ended well
        verdict = max((tmp_path / "run" / ".unhang" / "past").glob("*/verdict.json"), default=verdict)
    assert verdict.exists(), done.stderr[-3000:]
    return json.loads(verdict.read_text())["findings"][0], done.stderr


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that may use 8 % of a processor, v1 or v2; skips where none may be made."""
    parent = ROOT / "cpu" if (ROOT / "cpu" / "cpu.stat").exists() else ROOT
    folder = parent / f"unhang_test_{os.getpid()}"
    try:
        folder.mkdir()
        if parent == ROOT:
            (folder / "cpu.max").write_text("8000 100000")
        else:
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("8000")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    with suppress(OSError):
        folder.rmdir()


def test_a_limit_on_one_ranks_processors_is_named_with_its_remedy(tmp_path: Path, group: Path) -> None:
    first, printed = run(tmp_path, "limit", 90, group=group)

    assert (first["cause"], first["ranks"]) == ("slow-rank", [1]), printed
    assert any("may use 0.08 CPUs" in line for line in first["because"]), first["because"]
    assert first["remedies"][0]["title"] == "Give the job more CPUs"


def test_a_neighbour_on_one_ranks_processor_is_named(tmp_path: Path) -> None:
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        pytest.skip("one processor is all there is")
    words = [sys.executable, "-c", NEIGHBOUR, str(processors[1])]
    neighbours = [subprocess.Popen(words, start_new_session=True) for _ in range(NEIGHBOURS)]
    try:
        first, printed = run(tmp_path, "neighbour", 90)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()

    assert (first["cause"], first["ranks"]) == ("slow-rank", [1]), printed
    told = [line for line in first["because"] if "got no CPU" in line]
    assert told, first["because"]
    assert "bound to the same 1 CPU used" in told[0]


def test_a_full_disk_stands_beside_the_save_that_failed(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    with suppress(OSError):  # as full as it gets
        (disk / "others").write_bytes(b"x" * (8 << 20))
    try:
        first, printed = run(tmp_path, "full", 60, output_dir=disk)
    finally:
        subprocess.run(["umount", str(disk)], check=False)

    assert first["ranks"] == [0], printed
    assert any(f"the file system under {disk}" in line and "is full" in line for line in first["because"]), printed
    assert first["remedies"][0]["title"] == f"Free disk space under {disk}"


@dataclass(frozen=True)
class SlowDisk:
    """A file system under ``folder`` whose disk takes a megabyte a second from who is in ``group``."""

    folder: Path
    group: Path


@pytest.fixture
def slow_disk(tmp_path: Path) -> Iterator[SlowDisk]:
    """A disk in a file, whose own disk takes little from a control group; skips where that cannot be made."""
    with ExitStack() as undo:
        try:
            group = _group_of_slow_writes(tmp_path, undo)
            folder = _disk_in_a_file(tmp_path, undo)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"no slow disk can be made here: {error}")
        yield SlowDisk(folder, group)


def _group_of_slow_writes(place: Path, undo: ExitStack) -> Path:
    """A control group, v1 or v2, that may write a megabyte a second to the disk under ``place``."""
    old = (ROOT / "blkio" / "cgroup.procs").exists()
    group = (ROOT / "blkio" if old else ROOT) / f"unhang_test_io_{os.getpid()}"
    group.mkdir()
    undo.callback(_remove, group)
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    if old:
        (group / "blkio.throttle.write_bps_device").write_text(f"{number} {1 << 20}")
    else:
        (group / "io.max").write_text(f"{number} wbps={1 << 20}")
    return group


def _disk_in_a_file(place: Path, undo: ExitStack) -> Path:
    """Past the page cache, so that the disk it lies on is felt."""
    file, folder = place / "disk.img", place / "disk"
    folder.mkdir()
    with file.open("wb") as image:
        image.truncate(400 << 20)
    _do("mkfs.ext4", "-q", file)
    device = _do("losetup", "--find", "--show", "--direct-io=on", file).strip()
    undo.callback(subprocess.run, ["losetup", "-d", device], check=False)
    if Path(f"/sys/block/{Path(device).name}/loop/dio").read_text().strip() != "1":
        raise OSError("a disk in a file cannot go past the page cache here")
    _do("mount", device, folder)
    undo.callback(subprocess.run, ["umount", str(folder)], check=False)
    return folder


def _do(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def _remove(group: Path) -> None:
    with suppress(OSError):
        group.rmdir()


def test_a_slow_disk_is_named_beside_the_rank_that_saves_to_it(tmp_path: Path, slow_disk: SlowDisk) -> None:
    first, printed = run(tmp_path, "slow", 60, group=slow_disk.group, output_dir=slow_disk.folder)

    assert (first["cause"], first["ranks"]) == ("single-rank-work", [0]), printed
    assert any(f"the disk under {slow_disk.folder}" in line and "was busy" in line for line in first["because"]), (
        printed
    )
    assert first["remedies"][0]["title"].startswith("Find out what slows down the disk"), first["remedies"]
