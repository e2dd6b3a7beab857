"""Every signal reaches the command as often as without us: each scene is played twice, and what it heard compared."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tests.watch.signal_programs import RECORDER, RUN, Recorded, Terminal, ours

pytestmark = [pytest.mark.job, pytest.mark.timeout(180)]

SENT = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH", "ALRM", "CONT", "URG", "ABRT", "PIPE", "RTMIN")


def one_by_one(job: Recorded, send: Callable[[int, int], None]) -> None:
    """The next one once the one before was heard: the kernel keeps no second of a kind."""
    for name in SENT:
        before = len(job.heard())
        send(job.front.pid, getattr(signal, f"SIG{name}"))
        wait_for(lambda: len(job.heard()) > before)  # noqa: B023 - called here and now
        time.sleep(0.15)  # a second one would come by now


def to_us(job: Recorded) -> None:
    one_by_one(job, os.kill)


def to_the_group(job: Recorded) -> None:
    one_by_one(job, os.killpg)


def one_and_all(job: Recorded) -> None:
    """As ``timeout`` does: the command first, then its whole group; and the same signal to us alone after that."""
    os.killpg(job.front.pid, signal.SIGTERM)
    time.sleep(0.2)
    os.kill(job.front.pid, signal.SIGTERM)
    time.sleep(0.2)
    os.killpg(job.front.pid, signal.SIGTERM)
    time.sleep(0.2)


def by_name(job: Recorded) -> None:
    subprocess.run(["pkill", "-USR1", "-f", str(job.notes)], check=True, timeout=10)
    time.sleep(0.2)


@pytest.mark.parametrize("scene", [to_us, to_the_group, one_and_all, by_name], ids=lambda scene: scene.__name__)
def test_a_signal_from_a_process_is_heard_as_often(scene: Callable[[Recorded], None], tmp_path: Path) -> None:
    heard, codes = [], []
    for name, folder in (("without", None), ("with", tmp_path / "run")):
        job = Recorded(tmp_path / name, folder)
        scene(job)
        job.settle()
        codes.append(job.end())
        heard.append(sorted(job.heard()))  # the kernel hands over several that wait by their numbers

    assert heard[0] == heard[1]
    assert len(heard[0]) > 1
    assert codes == [7, 7]


def test_the_terminal_s_signals_are_heard_as_often(tmp_path: Path) -> None:
    heard = []
    for name, folder in (("without", None), ("with", tmp_path / "run")):
        notes = tmp_path / name
        shell = Terminal([*ours(folder), sys.executable, "-c", RECORDER, str(notes)])
        wait_for(lambda: notes.exists() and "ready" in notes.read_text())  # noqa: B023 - called here and now
        for keys in (b"\x03", b"\x1c", b"\x1a", b"\x03"):
            shell.type(keys)
            time.sleep(0.2)
        shell.resize(40)
        time.sleep(0.3)
        heard.append(notes.read_text().split())
        os.killpg(group_of(str(notes)), signal.SIGRTMIN + 5)
        shell.read_until("ended 7")
        shell.close()

    assert heard[0] == heard[1] == ["ready", "SIGINT", "SIGQUIT", "SIGTSTP", "SIGINT", "SIGWINCH"]


def test_job_control_stops_and_continues_as_without_us(tmp_path: Path) -> None:
    """Ctrl-Z: the shell sees its job stop and brings it back; the command hears one SIGCONT."""
    said, heard = [], []
    for name, folder in (("without", None), ("with", tmp_path / "run")):
        notes = tmp_path / name
        shell = Terminal([*ours(folder), sys.executable, "-c", RECORDER, str(notes), "stop"])
        wait_for(lambda: notes.exists() and "ready" in notes.read_text())  # noqa: B023 - called here and now
        for _ in range(2):
            shell.said = ""
            shell.type(b"\x1a")
            shell.read_until("stopped by SIGTSTP")
            time.sleep(0.4)
        heard.append(notes.read_text().split())
        os.killpg(group_of(str(notes)), signal.SIGRTMIN + 5)
        said.append("ended 7" in shell.read_until("ended 7"))
        shell.close()

    assert heard[0] == heard[1] == ["ready", "SIGCONT", "SIGCONT"]
    assert said == [True, True]


def test_a_terminal_that_hangs_up_is_heard_as_often(tmp_path: Path) -> None:
    heard = []
    for name, folder in (("without", None), ("with", tmp_path / "run")):
        notes = tmp_path / name
        shell = Terminal([*ours(folder), sys.executable, "-c", RECORDER, str(notes)], shell="die")
        wait_for(lambda: notes.exists() and "ready" in notes.read_text())  # noqa: B023 - called here and now
        group = group_of(str(notes))
        shell.hang_up()
        wait_for(lambda: "SIGHUP" in notes.read_text())  # noqa: B023 - called here and now
        time.sleep(0.4)
        heard.append(sorted(notes.read_text().split()))
        os.killpg(group, signal.SIGRTMIN + 5)
        shell.close()

    assert heard[0] == heard[1]
    assert heard[0].count("SIGHUP") == 1


def test_a_command_that_leads_the_session_hears_the_hang_up(tmp_path: Path) -> None:
    """``ssh -t host unhang run …``: the kernel tells the leader alone, which without us would be the command."""
    notes = tmp_path / "notes"
    pid, master = pty.fork()
    if pid == 0:
        words = [*RUN, "--dir", str(tmp_path / "run"), "--", sys.executable, "-c", RECORDER, str(notes)]
        os.execv(words[0], words)
    wait_for(lambda: notes.exists() and "ready" in notes.read_text())
    os.close(master)
    wait_for(lambda: "SIGHUP" in notes.read_text())

    os.kill(pid, signal.SIGRTMIN + 5)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert notes.read_text().split().count("SIGHUP") == 1


def group_of(mark: str) -> int:
    """The process group of the process whose arguments name ``mark`` and that has SIGCHLD unblocked: the recorder."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 3 and words[1] == b"-c" and words[3].decode(errors="replace") == mark:
                return os.getpgid(int(path.name))
    raise AssertionError("the recorder is gone")
