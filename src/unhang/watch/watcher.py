"""The watcher: reads the ranks' records a few times a second and sees to it that a stall is looked into.

``python -m unhang.watch.watcher RUN_FOLDER``. Started by the command runner, in a session of its own, with a low
priority. It touches the job only through the control file; looking and judging happen in short-lived children.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from unhang.watch import run_shutdown
from unhang.watch.dump_requests import open_control
from unhang.watch.job.job_ranks import AbsentRanks, JobRanks, output_files
from unhang.watch.job_state import JobState
from unhang.watch.launch import signals
from unhang.watch.launch.records_folder import alive_lock, watcher_lock
from unhang.watch.launch.run_settings import SettingsCollector
from unhang.watch.launch.tasks import Tasks
from unhang.watch.launch.watcher_process import EXIT_ALREADY_WATCHED
from unhang.watch.leader_tasks import LeaderTasks
from unhang.watch.moving_job import MovingJob
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.pace.rank_series import RankSeries
from unhang.watch.reporting import announcements
from unhang.watch.reporting.live_snapshot import LiveFile
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import kept_evidence
from unhang.watch.side_process import MachineSampling, serve_metrics
from unhang.watch.tick import ask_dumps_after_death, tick

TICK_S = 0.25
QUICK_TICK_S = 0.1
"""Of a node that follows, while somebody waits: what the leader asks for is on the way to its verdict."""
NICE = 5


def begin(folder: RunFolder) -> JobState:
    """The state of a job that is watched from now on; another watcher may have watched it before."""
    plan = folder.read_plan()
    announcements.set_language(plan.lang)
    records = Path(plan.records)
    nodes = LeaderTasks()
    with suppress(OSError):
        nodes.cluster = ClusterView.of_run(plan, folder.path, records)
    state = JobState(
        folder=folder,
        plan=plan,
        records=records,
        tasks=Tasks(records),
        job_outputs=output_files(plan.job_pid),
        members=JobRanks(records),
        absent=AbsentRanks(),
        nodes=nodes,
        moving=MovingJob(records, folder.path),
        series=RankSeries(folder.path),
        settings=SettingsCollector(folder, plan),
        machine=MachineSampling(folder.path, records),
        live=LiveFile(records, folder.path, always=bool(plan.metrics)),
        metrics=serve_metrics(folder.path, records, plan.metrics),
    )
    kept_evidence.restore(folder.path)
    kept_evidence.restore_judged(folder.path)
    control = open_control(records)
    if control is not None:
        control.now.watcher_pid = os.getpid()
        control.publish()
        control.close()
    return state


def watch(state: JobState) -> None:
    """Until the command has ended; then say the last words."""
    while not state.tasks.over():
        child = state.child.process.pidfd if state.child is not None else None
        state.members.wait(QUICK_TICK_S if state.nodes.is_urgent else TICK_S, (state.tasks.wait_pidfd, child))
        ask_dumps_after_death(state)
        tick(state)
    run_shutdown.close(state)


def main() -> int:
    """Watch the run whose folder is named; an exit code other than 0 asks for another try."""
    for number in signals.CAUGHT - {signal.SIGPIPE, signal.SIGXFSZ, *signals.FAULTS}:
        signal.signal(number, lambda *_: None)  # a batch system signals all processes; the job decides when it ends
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with suppress(OSError):
        os.nice(NICE)
    folder = RunFolder(Path(sys.argv[1]), Path(sys.argv[2]))
    held = (watcher_lock(folder.records or folder.path), alive_lock(folder.records or folder.path))
    if not held[0].acquire():
        return EXIT_ALREADY_WATCHED
    held[1].acquire(shared=True)
    try:
        watch(begin(folder))
    except Exception:  # noqa: BLE001 - the process edge: the command runner may try again
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
