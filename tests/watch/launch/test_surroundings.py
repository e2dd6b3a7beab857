"""Wherever the front process runs: as process 1, killed, without a terminal, without room on the disk."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for
from tests.watch.signal_programs import RUN, Terminal, ours

pytestmark = [pytest.mark.job, pytest.mark.timeout(180)]
SHARED = Path("/dev/shm")


def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **how)


def may_unshare() -> bool:
    return run(["unshare", "--pid", "--fork", "--mount-proc", "true"]).returncode == 0


as_process_1 = pytest.mark.skipif(not may_unshare(), reason="no new process namespace allowed here")
IN_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@as_process_1
@pytest.mark.parametrize(("line", "code"), [("exit 5", 5), ("kill -TERM $$", 143), ("echo pid $$ child of $PPID", 0)])
def test_process_1_passes_the_end_on(line: str, code: int, tmp_path: Path) -> None:
    done = run([*IN_NAMESPACE, *ours(tmp_path / "run"), "sh", "-c", line])

    assert done.returncode == code
    assert "child of 1" in done.stdout or code


@as_process_1
def test_process_1_reaps_the_orphans_of_others(tmp_path: Path) -> None:
    line = """
for n in 1 2 3 4 5; do sh -c '(sleep 0.2; exit 3) & (sleep 0.3) &'; done; sleep 1.2
zombies=$(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null)
echo zombies $(grep -l '^PPid:.1$' $zombies /dev/null | wc -l)
"""
    done = run([*IN_NAMESPACE, *ours(tmp_path / "run"), "sh", "-c", line])

    assert "zombies 0" in done.stdout
    assert done.returncode == 0


@as_process_1
def test_process_1_passes_signals_on_once(tmp_path: Path) -> None:
    """From outside of its namespace, as a container's engine does it."""
    program = (
        "import signal, sys, time\ngot = []\nsignal.signal(signal.SIGTERM, lambda *_: got.append('got'))\n"
        "print('ready', flush=True)\nend = time.monotonic() + 60\n"
        "while not got and time.monotonic() < end: time.sleep(0.05)\n"
        "time.sleep(0.7)  # a second one would come by now\nprint(*got)\nsys.exit(9)"
    )
    words = [*IN_NAMESPACE, *ours(tmp_path / "run"), sys.executable, "-c", program]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    (inside,) = (int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split())

    os.kill(inside, signal.SIGTERM)

    assert job.communicate(timeout=80)[0] == "got\n"
    assert job.returncode == 9


def test_a_killed_front_leaves_the_job_and_later_nothing(tmp_path: Path) -> None:
    """The job goes on, the watcher ends by itself, and its records in shared memory go with it."""
    killed, done = tmp_path / "killed", tmp_path / "done"
    waits = f"for i in $(seq 600); do [ -e {killed} ] && break; sleep 0.1; done"
    line = f"echo $UNHANG_RUN > {tmp_path}/records; {waits}; echo yes > {done}"
    front = subprocess.Popen([*ours(tmp_path / "run"), "sh", "-c", line], stderr=subprocess.DEVNULL)
    wait_for(lambda: (tmp_path / "records").exists() and (tmp_path / "records").read_text() != "")
    records = Path((tmp_path / "records").read_text().strip())
    wait_for(lambda: watchers(tmp_path))

    front.kill()
    front.wait(30)
    killed.touch()

    wait_for(done.exists)
    wait_for(lambda: not records.exists())
    wait_for(lambda: not processes_naming(str(tmp_path)))


def test_records_of_a_run_that_was_killed_whole_are_swept_by_the_next(tmp_path: Path) -> None:
    line = f"echo $UNHANG_RUN > {tmp_path}/records; sleep 60"
    front = subprocess.Popen([*ours(tmp_path / "run"), "sh", "-c", line], start_new_session=True)
    wait_for(lambda: (tmp_path / "records").exists() and (tmp_path / "records").read_text() != "")
    records = Path((tmp_path / "records").read_text().strip())
    wait_for(lambda: watchers(tmp_path))
    os.utime(records, (time.time() - 3600,) * 2)
    run([*ours(tmp_path / "other"), "true"])
    assert records.exists(), "somebody still holds it"

    os.killpg(front.pid, signal.SIGKILL)
    for pid in processes_naming(str(tmp_path)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    front.wait(30)
    wait_for(lambda: not processes_naming(str(tmp_path)))
    if records.exists():
        os.utime(records, (time.time() - 3600,) * 2)
    run([*ours(tmp_path / "third"), "true"])

    assert not records.exists()


def watchers(folder: Path) -> list[int]:
    """Those of the run below ``folder``; their lock is there before them."""
    return processes_naming(f"unhang.watch.watcher\0{folder}/run")


def processes_naming(text: str) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with suppress(OSError):
                if text.encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
    return found


def test_the_reader_goes_early(tmp_path: Path) -> None:
    """``| head -1``: the command dies of the broken pipe, as without us."""
    codes = []
    for folder in (None, tmp_path / "run"):
        job = subprocess.Popen([*ours(folder), "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert job.stdout is not None
        job.stdout.readline()
        job.stdout.close()
        codes.append(job.wait(60))

    assert codes == [-signal.SIGPIPE, -signal.SIGPIPE]


@pytest.mark.parametrize("kind", ["pipe", "null", "closed"])
def test_standard_input_is_the_command_s(kind: str, tmp_path: Path) -> None:
    program = "import os, sys\ntry: print(repr(os.read(0, 99)))\nexcept OSError as error: print(error.errno)"
    said = []
    for folder in (None, tmp_path / "run"):
        command = [*ours(folder), sys.executable, "-c", program]
        if kind == "closed":
            command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
        given = {"input": "some words"} if kind == "pipe" else {"stdin": subprocess.DEVNULL}
        said.append(run(command, **given).stdout)

    assert said[0] == said[1] != ""


def test_a_terminal_as_standard_input_is_the_command_s(tmp_path: Path) -> None:
    shell = Terminal([*ours(tmp_path / "run"), "sh", "-c", "echo ready; read word; test -t 0 && echo got $word"])
    shell.read_until("ready")

    shell.type(b"typed\n")

    shell.read_until("got typed")
    shell.read_until("ended 0")
    shell.close()


def test_under_nohup_setsid_and_timeout(tmp_path: Path) -> None:
    nohup = run(["nohup", *ours(tmp_path / "a"), "sh", "-c", "kill -HUP $PPID; sleep 0.3; kill -HUP $$; exit 4"])
    own_session = run(["setsid", "--wait", *ours(tmp_path / "b"), "sh", "-c", "exit 6"])
    in_time = run(["timeout", "30", *ours(tmp_path / "c"), "sh", "-c", "exit 8"])
    too_long = run(["timeout", "4", *ours(tmp_path / "d"), "sleep", "60"])

    assert [done.returncode for done in (nohup, own_session, in_time, too_long)] == [4, 6, 8, 124]
    wait_for(lambda: not processes_naming(str(tmp_path)))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(place)]).returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield place
    run(["umount", "-l", str(place)])


def test_a_full_disk_under_the_run_folder(small_disk: Path, tmp_path: Path) -> None:
    """The job goes on and says what it says; our last lines still come."""
    script = f"cat /dev/zero > {small_disk}/full 2>/dev/null; echo fine; exit 3"

    done = run([*ours(small_disk / "run"), "sh", "-c", script])
    again = run([*RUN, "--dir", str(small_disk / "again"), "--", "sh", "-c", "echo started"])

    assert (done.returncode, done.stdout) == (3, "fine\n")
    assert "unhang: could not observe any rank" in done.stderr
    assert "Traceback" not in done.stderr + again.stderr
    assert (again.returncode, again.stdout) == (0, "started\n") or "cannot be used" in again.stderr


@pytest.mark.parametrize("named", [(), ("--dir", "of mine")])
def test_a_folder_nobody_can_write_to_gives_way(tmp_path: Path, named: tuple[str, ...]) -> None:
    if os.getuid() == 0:
        place = tmp_path / "read-only"
        place.mkdir()
        if run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "small", str(place)]).returncode != 0:
            pytest.skip("no file system may be mounted here")
    else:
        place = tmp_path / "read-only"
        place.mkdir(mode=0o500)
    try:
        done = run([*RUN, *named, "--", "sh", "-c", "echo fine; exit 3"], cwd=place)
    finally:
        run(["umount", "-l", str(place)])

    assert (done.returncode, done.stdout) == (3, "fine\n")
    assert f"{named[1] if named else 'the current folder'} is not writable; " in done.stderr
    folder = Path(done.stderr.partition("the run folder is ")[2].splitlines()[0])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "run.json").exists()


def with_mounts(mounts: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """``command`` where the file systems of ``mounts`` lie over ours."""
    if run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).returncode != 0:
        pytest.skip("no file system may be mounted here")
    return run(["unshare", "--mount", "sh", "-c", f'{mounts}; cd /proc; exec "$@"', "sh", *command])


def test_no_room_in_shared_memory(tmp_path: Path) -> None:
    done = with_mounts(
        "mount -t tmpfs -o size=64k none /dev/shm",
        [*ours(tmp_path / "run"), "sh", "-c", "echo $UNHANG_RUN; exit 3"],
    )

    assert done.returncode == 3
    assert done.stdout.startswith("/")
    assert not done.stdout.startswith("/dev/shm")
    assert not Path(done.stdout.strip()).exists()


def test_no_place_for_anything() -> None:
    """The command runs, as if nobody had asked us."""
    nowhere = "; ".join(f"mount -t tmpfs -o ro none {place}" for place in ("/dev/shm", "/tmp", "/var/tmp"))

    done = with_mounts(nowhere, [*RUN, "--", "sh", "-c", "echo fine $UNHANG_RUN; exit 3"])

    assert (done.returncode, done.stdout) == (3, "fine\n")
    assert "the command runs unwatched" in done.stderr
    assert "Traceback" not in done.stderr
