"""``--capture``: the command's streams are as without us, whatever becomes of our disk."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tests.watch.signal_programs import LIMIT_S, RUN
from unhang.watch.launch import output_capture
from unhang.watch.launch.job_environment import RECORDS_VARIABLE

BOTH = """
import os
for i in range(2000):
    os.write(1, b"out %d\\n" % i)
    os.write(2, b"err %d\\n" % i)
raise SystemExit(5)
"""
LONG = "import sys\nfor i in range(60000): print('line', i)\nsys.stderr.write('end\\n')\nraise SystemExit(6)"


def words(tmp_path: Path, *command: str) -> list[str]:
    return [*RUN, "--dir", str(tmp_path / "run"), "--capture", "--", *command]


def captured(tmp_path: Path, *command: str, **how: object) -> subprocess.CompletedProcess[bytes]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    return subprocess.run(words(tmp_path, *command), timeout=LIMIT_S, check=False, **options)  # type: ignore[call-overload]


def kept(tmp_path: Path, name: str = "launcher.log") -> bytes:
    return (tmp_path / "run" / "logs" / name).read_bytes()


def without_ours(stderr: bytes) -> bytes:
    return b"".join(line for line in stderr.splitlines(keepends=True) if not line.startswith(b"unhang: "))


def ours(stderr: bytes) -> list[str]:
    return [line.decode() for line in stderr.splitlines() if b"capture stopped" in line or b"not saved" in line]


def test_streams_to_one_place_keep_their_order(tmp_path: Path) -> None:
    alone = subprocess.run([sys.executable, "-c", BOTH], stdout=-1, stderr=-2, check=False)

    done = captured(tmp_path, sys.executable, "-c", BOTH, stderr=subprocess.STDOUT)

    assert done.returncode == alone.returncode == 5
    assert without_ours(done.stdout) == alone.stdout == kept(tmp_path)
    assert stat.S_IMODE((tmp_path / "run" / "logs" / "launcher.log").stat().st_mode) == 0o600


def test_streams_to_two_places_are_kept_apart(tmp_path: Path) -> None:
    done = captured(tmp_path, sys.executable, "-c", BOTH)

    assert done.stdout == kept(tmp_path, "launcher.stdout.log")
    assert without_ours(done.stderr) == kept(tmp_path)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_full_disk_costs_the_rest_of_the_file_and_one_line(tmp_path: Path) -> None:
    done = captured(tmp_path, sys.executable, "-c", LONG, preexec_fn=limited)

    alone = subprocess.run([sys.executable, "-c", LONG], capture_output=True, check=False)
    assert done.returncode == alone.returncode == 6
    assert done.stdout == alone.stdout
    assert without_ours(done.stderr) == alone.stderr
    (line,) = ours(done.stderr)
    assert f"has the first 100,000 bytes; the next {len(alone.stdout) - 100_000:,} bytes were not saved" in line
    assert "File too large" in line
    assert kept(tmp_path, "launcher.stdout.log") == alone.stdout[:100_000]


NOTED = f"""
import os, pathlib, sys, time
print("x" * 200_000, flush=True)
records, until = pathlib.Path(os.environ[{RECORDS_VARIABLE!r}]), time.monotonic() + 20
while not cut_logs(records) and time.monotonic() < until:
    time.sleep(0.05)
print(*cut_logs(records), file=sys.stderr)
"""


def test_a_capture_that_stopped_is_noted_while_the_command_runs(tmp_path: Path) -> None:
    program = "from unhang.watch.sampling.kept_logs import cut_logs\n" + NOTED

    done = captured(tmp_path, sys.executable, "-c", program, preexec_fn=limited)

    assert without_ours(done.stderr).decode().split() == ["logs/launcher.stdout.log"]


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_file_system_without_room(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "small", small], check=True)
    try:
        (small / "fill").write_bytes(b"x" * 200_000)
        command = [*RUN, "--dir", str(small / "run"), "--capture", "--", sys.executable, "-c", LONG]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
    finally:
        subprocess.run(["umount", "-l", small], check=True)

    alone = subprocess.run([sys.executable, "-c", LONG], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (6, alone.stdout)
    assert without_ours(done.stderr) == alone.stderr
    assert "No space left on device" in ours(done.stderr)[0]


@pytest.mark.parametrize("how", ["file", "link"])
def test_no_place_for_the_file_at_all(how: str, tmp_path: Path) -> None:
    """The folder for logs cannot be made: the command runs, and prints where it would have printed."""
    run = tmp_path / "run"
    logs = {"file": "open(folder + '/logs', 'w').close()", "link": "os.symlink('/proc/self', folder + '/logs')"}[how]
    program = (
        "import os, sys\n"
        "from unhang.watch import run_folder\n"
        "made = run_folder.RunFolder.create.__func__\n"
        "def create(cls, path):\n"
        "    found = made(cls, path)\n"
        f"    folder = str(path); {logs}\n"
        "    return found\n"
        "run_folder.RunFolder.create = classmethod(create)\n"
        "from unhang.cli.main import main; main()"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "run",
        "--dir",
        str(run),
        "--capture",
        "--",
        "sh",
        "-c",
        "echo hi; exit 4",
    ]

    done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)

    assert (done.returncode, done.stdout) == (4, b"hi\n")
    assert len(ours(done.stderr)) == 1


def test_a_folder_that_is_removed_is_said(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")  # in which somebody may just write
    program = (
        f"import os, shutil\nprint('one', flush=True)\nwhile os.path.exists({folder!r}):\n"
        f"    shutil.rmtree({folder!r}, ignore_errors=True)\nprint('two')"
    )

    done = captured(tmp_path, sys.executable, "-c", program)

    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    (line,) = ours(done.stderr)
    assert "its folder was removed" in line


def test_a_slow_disk_makes_nobody_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "slow"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(output_capture, "MAX_QUEUED_BYTES", 1 << 20)
    monkeypatch.setattr(output_capture, "FLUSH_S", 0.2)
    writer = os.open(path, os.O_WRONLY)

    held = output_capture._LogWriter(writer)
    for _ in range(64):
        held.add(b"x" * 65536)
    text = held.finish(path)  # nobody reads: who waited for the disk would wait for ever

    assert "the disk is too slow" in str(text)
    os.close(reader)


def test_output_appears_at_once(tmp_path: Path) -> None:
    program = "import time\nprint('first', flush=True)\ntime.sleep(20)"
    with subprocess.Popen(words(tmp_path, sys.executable, "-c", program), stdout=subprocess.PIPE) as front:
        assert front.stdout is not None
        assert front.stdout.readline() == b"first\n"
        assert b"first\n".startswith(kept(tmp_path, "launcher.stdout.log"))
        front.terminate()


def test_a_reader_that_goes_early_ends_the_command_as_without_us(tmp_path: Path) -> None:
    program = "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: print('y' * 1000)"
    with subprocess.Popen(words(tmp_path, sys.executable, "-c", program), stdout=subprocess.PIPE) as front:
        assert front.stdout is not None
        front.stdout.readline()
        front.stdout.close()
        assert front.wait(LIMIT_S) == -signal.SIGPIPE


def relays(front: int) -> list[int]:
    children = Path(f"/proc/{front}/task/{front}/children").read_text().split()
    return [int(pid) for pid in children if b"unhang.cli.main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize("victim", ["front", "relay", "both one after the other"])
def test_a_command_outlives_whatever_of_ours_is_killed(victim: str, tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    program = (
        "import os, time\nprint('before', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
        f"for i in range(30): print('after', i, flush=True)\nopen({str(done)!r}, 'w').close()"
    )
    target = tmp_path / "out"
    with target.open("wb") as out:
        front = subprocess.Popen(words(tmp_path, sys.executable, "-c", program), stdout=out, stderr=out)
    wait_for(lambda: b"before" in target.read_bytes())
    if victim != "front":
        for pid in relays(front.pid):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
    if victim != "relay":
        front.kill()
    go.touch()

    front.wait(LIMIT_S)
    wait_for(done.exists)
    wait_for(lambda: target.read_bytes().count(b"after") == 30)


def test_what_a_command_leaves_running_prints_on_and_keeps_nobody(tmp_path: Path) -> None:
    target, go = tmp_path / "out", tmp_path / "go"
    script = f"(while [ ! -e {go} ]; do sleep 0.1; done; echo late) & echo now"
    with target.open("wb") as out:
        front = subprocess.Popen(words(tmp_path, "sh", "-c", script), stdout=out, stderr=out)
    assert front.wait(LIMIT_S) == 0

    go.touch()
    wait_for(lambda: b"late" in target.read_bytes())


def test_a_closed_stream_stays_closed(tmp_path: Path) -> None:
    program = "import os\ntry: os.fstat(1)\nexcept OSError: raise SystemExit(9)"

    done = captured(tmp_path, sys.executable, "-c", program, stdout=None, preexec_fn=lambda: os.close(1))

    assert done.returncode == 9


SECRETS = """
import sys, time
print("front", flush=True)
time.sleep(1.5)  # nobody of ours is left to ask
for number in range(20):
    print(f"step {number} password=hunter{number:03}x", flush=True)
    time.sleep(0.02)
print("token=" + "q7wk" * 6, end="", flush=True)
"""


def test_secrets_leave_the_log_although_the_front_process_was_killed(tmp_path: Path) -> None:
    job = subprocess.Popen(
        words(tmp_path, sys.executable, "-c", SECRETS), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert job.stdout is not None
        job.stdout.readline()
        job.kill()
        seen = job.stdout.read()  # ends when the last writer ends
    finally:
        job.kill()
        job.communicate(timeout=LIMIT_S)

    assert b"hunter019x" in seen
    wait_for(lambda: b"hunter" not in kept(tmp_path, "launcher.stdout.log"), 10.0)
    wait_for(lambda: b"q7wk" not in kept(tmp_path, "launcher.stdout.log"), 10.0)
    assert kept(tmp_path, "launcher.stdout.log").count(b"step ") == 20
