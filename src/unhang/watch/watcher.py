"""The watcher: reads the ranks' records a few times a second and sees to it that a stall is looked into.

``python -m unhang.watch.watcher RUN_FOLDER``. Started by the command runner, in a session of its own, with a low
priority. It touches the job only through the control file; looking and judging happen in short-lived children.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from unhang.history.run import RunEnding
from unhang.watch.dump_requests import open_control
from unhang.watch.job.job_ranks import AbsentRanks, JobRanks, output_files
from unhang.watch.job_actions import live_state, next_request, report_episode, report_verdict, start, wait_is_over
from unhang.watch.job_state import JobState
from unhang.watch.launch import signals
from unhang.watch.launch.records_folder import alive_lock, remove_records, watcher_lock
from unhang.watch.launch.run_settings import SettingsCollector
from unhang.watch.launch.tasks import Tasks
from unhang.watch.launch.watcher_process import EXIT_ALREADY_WATCHED
from unhang.watch.leader_tasks import LeaderTasks
from unhang.watch.moving_job import MovingJob
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.evidence_gathering import AT_THE_END_S
from unhang.watch.pace.rank_series import RankSeries
from unhang.watch.reporting import announcements
from unhang.watch.reporting.live_snapshot import LiveFile, hosts_of
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import kept_evidence
from unhang.watch.side_process import MachineSampling, add_to_history, serve_metrics, start_recording
from unhang.watch.stall_episode import StallEpisode
from unhang.watch.tick import ask_dumps_after_death, judge_waits, send_to_leader, serve_leader, take_result, tick
from unhang.watch.verdict.evidence_request import EvidenceRequest
from unhang.wire.documents.verdict_summary import HEALTHY, VerdictLevel, VerdictSummary
from unhang.wire.process_registration import read_internal_errors

TICK_S = 0.25
QUICK_TICK_S = 0.1
"""Of a node that follows, while somebody waits: what the leader asks for is on the way to its verdict."""
NICE = 5
EXIT_STATUS_LIMIT_S = 2.0
"""Seconds: the command runner writes down how the command ended a moment after it did."""
LEADER_REQUEST_LIMIT_S = 4.0
"""After a command that failed: so long the leader's may take to fail too, and ask."""


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
    close(state)


# The command has ended: look into a bad end, say the last lines, leave


def close(state: JobState) -> None:
    """Everything that is left to do, once, after the command ended."""
    stop_activities(state)
    recording = start_recording() if state.members.by_rank and not state.nodes.leader_keeps_history else None
    failed = has_failed(state)
    judge_the_end(state, failed=failed)
    kept_evidence.restore_judged_if_live(state.folder.path)
    for line in announcements.internal_error_lines(read_internal_errors(state.records), state.members):
        state.folder.say(line)
    everyone = state.nodes.all_ranks(state.members)
    state.folder.say(announcements.summary_lines(state.totals, everyone, state.folder.path))
    if state.tasks.ended_well():
        keep_healthy_evidence(state)
    state.history.end()
    if recording is not None:  # a command without ranks is no run worth keeping
        recorded = add_to_history(run_ending(state, failed=failed), begun=recording)
        state.folder.say(announcements.not_recorded_line(recorded))
    state.live.write_last(live_state(state, None, ended=True))
    if state.metrics is not None:
        state.metrics.end()
    state.nodes.leave(state.folder.path, failed=failed)
    state.machine.process.end()
    if state.tasks.are_runners_gone():
        remove_records(state.records)


def stop_activities(state: JobState) -> None:
    """What goes on beside is ended, but a sample may come to its verdict."""
    state.members.refresh()
    state.members.wait(0)
    state.moving.cancel_requests()
    state.series.close()
    state.settings.end()
    if state.child is not None:
        state.child.wait()
        take_result(state)
    if state.abort is not None:
        state.abort.finish()
        kept_evidence.restore_judged(state.folder.path)


def has_failed(state: JobState) -> bool:
    """The command ended badly, and nobody had asked it to end."""
    deadline = time.monotonic() + EXIT_STATUS_LIMIT_S
    while not state.tasks.told() and time.monotonic() < deadline:
        time.sleep(0.02)
    failed = state.tasks.failed()
    if failed is None:
        return any(member.exit_code not in (0, None) for member in state.members.by_rank.values())
    return failed


def judge_the_end(state: JobState, *, failed: bool) -> None:
    """Say why it failed where that was not said; what was never said of a job that ended well is nothing."""
    last = last_episode(state)
    said = last.said if last is not None else None
    explained = state.failure_explained or state.abort is not None or (said is not None and said.explains_the_end)
    if failed and state.members.by_rank and not explained and not leader_explains_failure(state):
        diagnose_failure(state, last)
    elif last is not None and state.tasks.ended_well():
        wait_is_over(state, last)
    elif last is not None and last.changed and last.last is not None:
        report_episode(state, last, last.last, last.text)  # it was not steady yet; now it stays
    elif last is not None and said is None and last.last is not None and last.last.cause:
        kept_evidence.publish(state.folder.path)  # ended from outside before it was sure enough to be said
        state.totals.findings.append(last.last.cause)


def last_episode(state: JobState) -> StallEpisode | None:
    """The last wait, of those that were spoken of where there is one."""
    waits = [wait for wait in (state.episode, state.ended_episode, state.left) if wait is not None]
    return next((wait for wait in waits if wait.said is not None), waits[0] if waits else None)


def leader_explains_failure(state: JobState) -> bool:
    """Wait some seconds for the verdict of the leader, if another node is that. Whether it came."""
    if state.nodes.cluster is None:
        return False
    deadline = time.monotonic() + LEADER_REQUEST_LIMIT_S
    while time.monotonic() < deadline:
        judge_waits(state, state.members.samples())
        if not state.nodes.follows:
            break
        serve_leader(state)
        if state.child is not None and state.child.request.leader_number is not None:
            state.child.wait()
            send_to_leader(state, state.child)
            state.child = None
            deadline = time.monotonic() + AT_THE_END_S
        if state.nodes.leader_explained_failure:
            break
        time.sleep(0.1)
    return state.nodes.leader_explained_failure


def diagnose_failure(state: JobState, last: StallEpisode | None) -> None:
    """One more sample, of what the job left; its verdict is said where it says more than the last one."""
    said = last.said if last is not None else None
    request = state.nodes.ask(next_request(state, None, with_stacks=False, live=False), None)
    if said is not None:
        request = replace(request, said=said)
    answer = answer_of(state, request)
    if answer is None and last is not None and last.changed and last.last is not None:
        report_episode(state, last, last.last, last.text)  # it stands again
    if answer is None or answer[0].level != VerdictLevel.CRASH.value:
        return
    if said is not None and answer[0].blame_key == said.blame_key:
        state.folder.say(announcements.still_holds())
    elif last is not None and said is not None:
        report_episode(state, last, *answer)
    else:
        state.totals.found(answer[0].cause)
        report_verdict(state, *answer)


def answer_of(state: JobState, request: EvidenceRequest) -> tuple[VerdictSummary, str] | None:
    """What a last sample comes to."""
    start(state, request)
    assert state.child is not None
    child, state.child = state.child, None
    child.wait()
    state.totals.failed_samples += child.process.failed
    return child.answer()


def keep_healthy_evidence(state: JobState) -> None:
    """What shows that every rank is well; nothing where that is not shown, or something else was said."""
    if not state.members.by_rank or state.folder.verdict.exists() or state.nodes.cluster is not None:
        return
    state.members.infer_clean_exits()
    request = next_request(state, None, with_stacks=False, live=False)
    answer = answer_of(state, replace(request, ended_well=True))
    if answer is None or answer[0].status != HEALTHY:
        kept_evidence.discard_sample(state.folder.path)


def run_ending(state: JobState, *, failed: bool) -> RunEnding:
    """The run, as the history keeps it."""
    return RunEnding(
        folder=str(state.folder.path),
        failed=failed,
        ended_s=time.time(),
        hosts=tuple(sorted({*hosts_of(state.members.by_rank).values(), *state.nodes.other_hosts})),
        world_size=state.members.world_size,
        steps=state.totals.steps,
        step_s=state.totals.median_step_s,
    )


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
