"""The command has ended: look into a bad end, say the last lines, leave."""

from __future__ import annotations

import time
from dataclasses import replace

from unhang.history.run import RunEnding
from unhang.watch.job_actions import live_state, next_request, report_episode, report_verdict, start, wait_is_over
from unhang.watch.job_state import JobState
from unhang.watch.launch.records_folder import remove_records
from unhang.watch.nodes.evidence_gathering import AT_THE_END_S
from unhang.watch.reporting import announcements
from unhang.watch.reporting.live_snapshot import hosts_of
from unhang.watch.sampling import kept_evidence
from unhang.watch.side_process import add_to_history
from unhang.watch.stall_episode import StallEpisode
from unhang.watch.tick import judge_waits, send_to_leader, serve_leader, take_result
from unhang.watch.verdict.evidence_request import EvidenceRequest
from unhang.wire.documents.verdict_summary import HEALTHY, VerdictLevel, VerdictSummary
from unhang.wire.process_registration import read_internal_errors

EXIT_STATUS_LIMIT_S = 2.0
"""Seconds: the command runner writes down how the command ended a moment after it did."""
LEADER_REQUEST_LIMIT_S = 4.0
"""After a command that failed: so long the leader's may take to fail too, and ask."""


def close(state: JobState) -> None:
    """Everything that is left to do, once, after the command ended."""
    stop_activities(state)
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
    if state.members.by_rank:  # a command without ranks is no run worth keeping
        add_to_history(run_ending(state, failed=failed))
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
        state.totals.findings.append(last.last.cause)  # ended from outside before it was sure enough to be said


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
        request = replace(request, said=(said.cause, said.certainty))
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
        hosts=tuple(sorted(set(hosts_of(state.members.by_rank).values()))),
        world_size=state.members.world_size,
        steps=state.totals.steps,
        step_s=state.totals.median_step_s,
    )
