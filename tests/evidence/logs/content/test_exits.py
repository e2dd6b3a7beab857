# ruff: noqa: E501 - log lines are as long as they are
"""How processes ended, as launchers and schedulers tell it."""

from __future__ import annotations

import io

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log

TABLE = """\
W1121 16:58:27.963000 2813240 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 257 closing signal SIGTERM
E1121 16:58:27.970000 2813240 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 1 (pid: 264) of binary: /opt/bin/python
Traceback (most recent call last):
  File "/opt/lib/torch/distributed/launcher/api.py", line 270, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_16:58:29
  host      : node7
  rank      : 10 (local_rank: 2)
  exitcode  : -9 (pid: 265)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 265
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_16:58:27
  host      : node7
  rank      : 9 (local_rank: 1)
  exitcode  : -6 (pid: 264)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 264
============================================================
"""


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), source="launcher.log")


def test_the_table_of_torchrun_is_read_and_joined_with_its_lines() -> None:
    reading = read(TABLE)
    exits = {item.pid: item for item in reading.exits}
    assert len(exits) == len(reading.exits) == 3
    victim = exits[257]
    assert (victim.exit_code, victim.terminated_by_launcher, victim.rank) == (-15, True, None)
    aborted = exits[264]
    assert (aborted.rank, aborted.local_rank, aborted.exit_code, aborted.host) == (9, 1, -6, "node7")
    assert not aborted.terminated_by_launcher
    assert aborted.time_s == exits[265].time_s - 2 + 0.97  # type: ignore[operator]
    assert exits[265].rank == 10
    assert reading.role == "launcher"
    assert [line.text for line in reading.last_lines] == []


def test_slurm_tells_the_ranks_that_ended() -> None:
    reading = read(
        "srun: error: node1: tasks 1-3,7: Exited with exit code 1\n"
        "srun: error: node2: task 5: Killed\n"
        "srun: error: node2: task 6: Aborted (core dumped)\n"
        "srun: error: node2: task 4: Segmentation fault\n"
    )
    assert {item.rank: item.exit_code for item in reading.exits} == {1: 1, 2: 1, 3: 1, 7: 1, 5: -9, 6: -6, 4: -11}
    assert {item.host for item in reading.exits} == {"node1", "node2"}


def test_slurm_tasks_are_not_ranks_under_torchrun() -> None:
    reading = read(TABLE + "srun: error: node2: task 1: Exited with exit code 1\n")
    (told,) = [item for item in reading.exits if item.source_kind == "slurm"]
    assert told.rank is None


def test_other_launchers_are_understood() -> None:
    reading = read(
        "c4n140: rank 1 died from signal 6 and dumped core\n"
        "mpirun noticed that process rank 3 with PID 12345 on node node1 exited on signal 9 (Killed).\n"
        "[2026-12-19 03:17:26,042] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 77\n"
        "[2026-12-19 03:17:27,042] [ERROR] [launch.py:321:sigkill_handler] "
        "['/opt/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = -6\n"
        "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL\n"
        "./launcher.sh: line 14: 44119 Aborted                 (core dumped) $@\n"
    )
    told = [(item.source_kind, item.rank, item.local_rank, item.pid, item.exit_code) for item in reading.exits]
    assert told == [
        ("mpiexec", 1, None, None, -6),
        ("mpirun", 3, None, 12345, -9),
        ("deepspeed", None, None, 77, -15),
        ("deepspeed", None, 3, None, -6),
        ("multiprocessing", None, 2, None, -9),
        ("shell", None, None, 44119, -6),
    ]


def test_restarts_count_attempts() -> None:
    reading = read(
        "E1121 16:58:27.970000 1 api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 10) of binary: /opt/bin/python\n"
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 2/3 attempts left; will restart"
        " worker group\n"
        "  restart_count=1\n"
        "E1121 17:58:27.970000 1 api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 20) of binary: /opt/bin/python\n"
    )
    assert [(item.pid, item.attempt) for item in reading.exits] == [(10, 0), (20, 1)]


def test_kernel_lines_are_read_and_the_log_is_known_as_the_kernels() -> None:
    reading = read(
        "Nov 21 18:19:16 node1 kernel: [165956.61] NVRM: Xid (PCI:0000:3b:00): 79, pid=1742, GPU has fallen off the bus.\n"
        "Nov 21 18:20:16 node1 kernel: [166016.61] Out of memory: Killed process 1742 (python) total-vm:9kB, "
        "anon-rss:65432100kB, file-rss:0kB\n"
        "Nov 21 18:20:17 node1 kernel: mlx5_core 0000:4b:00.0 enp75s0np0: Link down\n"
    )
    assert [event.kind for event in reading.events][:1] == ["k.xid"]
    xid = reading.events[0]
    assert (xid.values["xid"], xid.values["bus"], xid.values["pid"]) == (79, "0000:3b:00", 1742)
    killed = next(event for event in reading.events if event.kind == "k.oomkill")
    assert (killed.values["pid"], killed.values["rss_kb"]) == (1742, 65432100)
    assert killed.time_s == xid.time_s + 60  # type: ignore[operator]
    assert reading.role == "kernel"
