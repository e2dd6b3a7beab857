"""The front process is invisible: streams, exit codes and signals are the command's own."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for
from tests.watch.signal_programs import LIMIT_S, RUN

COUNTS = """
import signal, time
got = []
signal.signal(signal.{name}, lambda *_: got.append(1))
print("ready", flush=True)
end = time.monotonic() + 60
while not got and time.monotonic() < end:
    time.sleep(0.05)
time.sleep(0.7)  # a second one would come by now
"""


def run(tmp_path: Path, *command: str, options: tuple[str, ...] = (), **how: Any) -> subprocess.CompletedProcess[str]:
    words = [*RUN, "--dir", str(tmp_path / "run"), *options, "--", *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False, **how)


@pytest.mark.parametrize("code", [0, 1, 3, 77, 130, 255])
def test_the_exit_code_is_passed_on(code: int, tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["KILL", "TERM", "ABRT", "INT"])
def test_a_command_killed_by_a_signal_ends_us_by_the_same(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", f"kill -{name} $$").returncode == -getattr(signal, f"SIG{name}")


def test_a_command_that_does_not_exist_is_127(tmp_path: Path) -> None:
    done = run(tmp_path, "no-such-command-here")

    assert done.returncode == 127
    assert "no-such-command-here" in done.stderr


def test_streams_go_through_untouched(tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-c", "cat; echo to-err >&2", input="one\ntwo\n")

    assert done.stdout == "one\ntwo\n"
    assert "to-err\n" in done.stderr


def test_captured_output_arrives_whole_and_is_kept(tmp_path: Path) -> None:
    program = "import sys\nfor i in range(20000): print('line', i)\nprint('bad', file=sys.stderr)"

    done = run(tmp_path, sys.executable, "-c", program, options=("--capture",))

    assert done.stdout.splitlines()[-1] == "line 19999"
    assert len(done.stdout.splitlines()) == 20000
    assert (tmp_path / "run" / "logs" / "launcher.stdout.log").read_text() == done.stdout


def test_a_signal_sent_to_us_reaches_the_command_once(tmp_path: Path) -> None:
    program = COUNTS.format(name="SIGUSR1") + "raise SystemExit(40 + len(got))"
    front = subprocess.Popen(
        [*RUN, "--dir", str(tmp_path / "run"), "--", sys.executable, "-c", program], stdout=subprocess.PIPE
    )
    assert front.stdout is not None
    assert front.stdout.readline() == b"ready\n"

    front.send_signal(signal.SIGUSR1)

    assert front.wait(LIMIT_S) == 41
    front.stdout.close()


def test_the_terminal_s_ctrl_c_reaches_the_command_once(tmp_path: Path) -> None:
    """The kernel sends it to the whole group; we must not send it again."""
    program = COUNTS.format(name="SIGINT") + "print('got', len(got), flush=True)"
    master, slave = os.openpty()
    front = subprocess.Popen(
        [*RUN, "--dir", str(tmp_path / "run"), "--", sys.executable, "-c", program],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - this process has one thread
    )
    os.close(slave)
    said = b""
    while b"ready" not in said:
        said += os.read(master, 1000)
    os.write(master, b"\x03")
    while not re.search(rb"got \d", said):
        said += os.read(master, 1000)

    assert b"got 1" in said
    assert front.wait(LIMIT_S) == 0
    os.close(master)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_killing_the_front_lets_the_command_go_on(tmp_path: Path) -> None:
    started, killed, done = (tmp_path / name for name in ("started", "killed", "done"))
    line = f"touch {started}; for i in $(seq 600); do [ -e {killed} ] && break; sleep 0.1; done; touch {done}"
    front = subprocess.Popen([*RUN, "--dir", str(tmp_path / "run"), "--", "sh", "-c", line])
    wait_for(lambda: started.exists() and (tmp_path / "run" / "run.json").exists())

    front.kill()
    front.wait(LIMIT_S)
    killed.touch()

    wait_for(done.exists)


def test_nothing_of_ours_holds_the_command_s_pipes(tmp_path: Path) -> None:
    """The reader sees the end of file although somebody still watches."""
    words = [*RUN, "--dir", str(tmp_path / "run"), "--", "sh", "-c", "exec sleep 100"]
    front = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert front.stdout is not None
    pipe = str(Path(f"/proc/self/fd/{front.stdout.fileno()}").readlink())
    wait_for(lambda: bool(watchers(tmp_path / "run")))

    holders = {pid for pid in watchers(tmp_path / "run") if pipe in links_of(pid)}

    assert holders == set()
    front.terminate()
    front.communicate(timeout=LIMIT_S)


def watchers(folder: Path) -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if mentions(path, str(folder))]


def mentions(process: Path, text: str) -> bool:
    try:
        return (
            b"unhang.watch.watcher" in (process / "cmdline").read_bytes()
            and text.encode() in (process / "cmdline").read_bytes()
        )
    except OSError:
        return False


def links_of(pid: int) -> set[str]:
    found = set()
    with suppress(FileNotFoundError):  # the process, or one of its files, is gone
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(path.readlink()))
    return found


def test_a_stuck_reader_of_our_lines_does_not_hold_the_end(tmp_path: Path) -> None:
    words = [*RUN, "--dir", str(tmp_path / "run"), "--", "sh", "-c", "exit 5"]
    read, write = os.pipe()
    filler = b"x" * 4096
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, filler)
    os.set_blocking(write, True)

    front = subprocess.Popen(words, stderr=write)

    assert front.wait(LIMIT_S) == 5
    os.close(read)
    os.close(write)


def test_the_run_folder_is_for_its_owner_only_and_the_records_are_gone(tmp_path: Path) -> None:
    run(tmp_path, "sh", "-c", "echo $UNHANG_RUN > records.txt", cwd=tmp_path)

    folder = tmp_path / "run"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert {oct(mode) for path, mode in modes.items() if path.is_dir()} == {"0o700"}
    assert {oct(mode) for path, mode in modes.items() if path.is_file()} == {"0o600"}
    records = Path((tmp_path / "records.txt").read_text().strip())
    assert records.name.startswith("unhang-")
    assert not records.exists()


def test_what_the_user_set_stays_as_it_is(tmp_path: Path) -> None:
    shown = "echo $PYTHONPATH; echo $TORCH_NCCL_TRACE_BUFFER_SIZE $TORCH_FR_BUFFER_SIZE"
    environment = {**os.environ, "PYTHONPATH": "/mine", "TORCH_NCCL_TRACE_BUFFER_SIZE": "7"}
    environment.pop("TORCH_FR_BUFFER_SIZE", None)

    done = run(tmp_path, "sh", "-c", shown, env=environment)

    path, sizes = done.stdout.splitlines()
    assert path.endswith("inprocess/startup:/mine")
    assert sizes == "7"


def test_a_folder_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")

    done = run(tmp_path, "sh", "-c", "echo started")

    assert done.returncode == 2
    assert "started" not in done.stdout
    assert "is not empty" in done.stderr
