"""Whatever is broken around us, a job under ``unhang run`` prints the same and ends the same, and nothing is tried
without end."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.watch.signal_programs import LIMIT_S, RUN

pytestmark = pytest.mark.timeout(240)

JOB = """
import json, os, sys, time
fault, told = sys.argv[1], sys.argv[2]
for i in range(300):
    os.write(1, b"step %d\\n" % i)
    if i == 100:
        exec(fault)
    if i % 50 == 0:
        os.write(2, b"warning %d\\n" % i)
    if i % 10 == 0:
        time.sleep(0.03)
with open(told, "w") as file:
    counted = dict(line.split(": ") for line in open("/proc/self/io"))
    json.dump(int(counted["syscr"]) + int(counted["syscw"]), file)
os.write(1, "ende \\xfc \\x1b[31m\\0\\r\\n".encode("latin-1"))
raise SystemExit(7)
"""
"""Prints, lets something break in the middle, prints on; control characters of a job are its own affair."""


@dataclass
class Fault:
    """Before: shell lines in a mount namespace of its own. In the middle: what the job does, as Python."""

    before: str = ""
    middle: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    ran: str = "run"


FILL = """
try:
    with open({place!r}, "wb", 0) as file:
        while True: file.write(b"x" * 4096)
except OSError: pass
"""
SMALL, FILL_SMALL = "small/run", FILL.format(place="BASE/small/fill")
RUBBISH = "mkdir -p state/unhang; echo rubbish >state/unhang/history.sqlite3"
READ_ONLY = "import subprocess; subprocess.run(['mount', '-t', 'tmpfs', '-o', 'ro', 's', 'BASE/small'], check=True)"
INSTEAD = """
import os, shutil
while True:  # we may make the folder anew between the two
    shutil.rmtree('RUN', ignore_errors=True)
    try: {made}; break
    except FileExistsError: pass
"""
FAULTS = {
    "nothing": Fault(),
    "disk full from the start": Fault(
        "mount -t tmpfs -o size=16k s small; head -c 16k /dev/zero >small/fill", ran=SMALL
    ),
    "disk nearly full": Fault("mount -t tmpfs -o size=200k s small", ran=SMALL),
    "disk full in the middle": Fault("mount -t tmpfs -o size=600k s small", FILL_SMALL, ran=SMALL),
    "no inodes": Fault("mount -t tmpfs -o nr_inodes=4 s small", ran=SMALL),
    "read-only from the start": Fault("mount -t tmpfs -o ro s small", ran=SMALL),
    "read-only in the middle": Fault("mount -t tmpfs s small", READ_ONLY, ran=SMALL),
    "size of files limited": Fault("ulimit -f 4"),
    "few file numbers": Fault("ulimit -n 24"),
    "folder removed": Fault("", "import shutil; shutil.rmtree('RUN', ignore_errors=True)"),
    "folder a link elsewhere": Fault("", INSTEAD.format(made="os.symlink('/proc/self', 'RUN')")),
    "folder a file": Fault("", INSTEAD.format(made="open('RUN', 'x').close()")),
    "records removed": Fault(
        "", "import os, shutil; shutil.rmtree(os.environ.get('UNHANG_RUN', '-'), ignore_errors=True)"
    ),
    "history is rubbish": Fault(RUBBISH),
    "history is a folder": Fault("mkdir -p state/unhang/history.sqlite3"),
    "history is a pipe": Fault("mkdir -p state/unhang; mkfifo state/unhang/history.sqlite3"),
    "home and state are files": Fault("rm -rf home state; touch home state"),
    "home is gone": Fault(environment={"HOME": "/nowhere/at/all", "XDG_STATE_HOME": ""}),
    "home is not writable": Fault(environment={"HOME": "/proc/1", "XDG_STATE_HOME": "/proc/1"}),
    "shared memory full": Fault("mount -t tmpfs -o size=4k s /dev/shm; head -c 4k /dev/zero >/dev/shm/fill"),
    "shared memory full in the middle": Fault(
        "mount -t tmpfs -o size=2m s /dev/shm", FILL.format(place="/dev/shm/fill")
    ),
    "shared memory read-only": Fault("mount -t tmpfs -o ro s /dev/shm"),
    "no place for anything": Fault(
        "mount -t tmpfs -o ro s /dev/shm; mount -t tmpfs -o ro s small",
        environment={"TMPDIR": "BASE/small", "HOME": "BASE/small", "XDG_STATE_HOME": "BASE/small"},
        ran=SMALL,
    ),
}


@dataclass(frozen=True)
class Ended:
    """What a user sees of a job, and how often it read and wrote, itself and what of us is inside it."""

    code: int
    out: bytes
    err: bytes
    read_and_written: int


def run(words: list[str], fault: Fault, base: Path) -> Ended:
    """``words`` in a mount namespace of their own, where ``fault`` has happened."""
    for name in ("small", "home", "state"):
        (base / name).mkdir()
    environment = {**os.environ, "HOME": "home", "XDG_STATE_HOME": f"{base}/state", "LC_ALL": "C.UTF-8", "RANK": "0"}
    environment |= {name: value.replace("BASE", str(base)) for name, value in fault.environment.items()}
    shell = f'cd "$1"; shift; {fault.before or ":"}; exec "$@"'
    alone = ["unshare", "-m", "--propagation", "private"] if os.getuid() == 0 else []
    done = subprocess.run(
        [*alone, "sh", "-c", shell, "sh", str(base), *words],
        env=environment,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    told = base / "told"
    return Ended(done.returncode, done.stdout, done.stderr, json.loads(told.read_text()) if told.exists() else -1)


def job(base: Path, fault: Fault) -> list[str]:
    middle = fault.middle.replace("BASE", str(base)).replace("RUN", str(base / fault.ran))
    return [sys.executable, "-c", JOB, middle.replace(f"UNHANG_{base / fault.ran}", "UNHANG_RUN"), str(base / "told")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    base = tmp_path_factory.mktemp("alone")
    return run(job(base, Fault()), Fault(), base)


def of_the_job(stderr: bytes) -> bytes:
    lines = stderr.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith((b"unhang: ", b"  ")) and line.strip())


@pytest.mark.parametrize("capture", [False, True], ids=["", "--capture"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_job_is_as_without_us(name: str, capture: bool, alone: Ended, tmp_path: Path) -> None:
    fault = FAULTS[name]
    if os.getuid() != 0 and "mount" in fault.before + fault.middle:
        pytest.skip("mounts file systems, which root may")
    options = ["--dir", fault.ran, *(["--capture"] if capture else [])]

    ended = run([*RUN, *options, "--", *job(tmp_path, fault)], fault, tmp_path)

    assert (ended.code, ended.out) == (alone.code, alone.out) == (7, alone.out)
    assert of_the_job(ended.err) == alone.err
    assert b"Traceback" not in ended.err
    assert ended.read_and_written < 10 * alone.read_and_written


def test_a_history_that_somebody_holds_locked(alone: Ended, tmp_path: Path) -> None:
    fault = Fault(environment={"XDG_STATE_HOME": f"{tmp_path}/held"})
    path = tmp_path / "held" / "unhang" / "history.sqlite3"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        ended = run([*RUN, "--dir", "run", "--", *job(tmp_path, fault)], fault, tmp_path)

    assert (ended.code, ended.out, of_the_job(ended.err)) == (7, alone.out, alone.err)
