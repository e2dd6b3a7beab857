"""One tick of the watcher: named steps in their order, each from the state of the job to what changes in it.

Nothing here reads a record, judges a wait or takes evidence: each step asks the module whose work that is, gives it
what it needs, and writes the answer into the state.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from unhang.watch import end_job, private_files
from unhang.watch.dump_requests import ask_dumps
from unhang.watch.job.wait_detection import PlannedWait, RankSample, WaitSnapshot, planned_wait
from unhang.watch.job_actions import (
    abort,
    end_child,
    end_child_of_wait,
    live_state,
    next_request,
    report_episode,
    report_verdict,
    start,
    wait_is_over,
)
from unhang.watch.job_state import JobState
from unhang.watch.moving_job import DRIFT_SAMPLES, LONG_STEP_S, STRAGGLER_SAMPLES
from unhang.watch.nodes.node_announcements import leader_verdict_line
from unhang.watch.pace.pace_over_nodes import SlowestRank
from unhang.watch.reporting import announcements
from unhang.watch.sampling import exit_evidence, kept_evidence
from unhang.watch.stall_episode import StallEpisode, borne_s, patience_limits_s, should_abort, should_report
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary

CRASH_GRACE_S = 1.2
"""A launcher ends the other ranks within moments after one died; before that there is no stall."""
WAIT_NOTICED_S = 0.5
END_CONFIRM_S = 3.0
"""A wait that ends because ranks are being ended looks at first as if it ended by itself."""
JOB_EXIT_LIMIT_S = 30.0
"""So long ranks may take to end after they were asked to; torchrun waits as long before it kills them."""
MAX_PACE_SAMPLES = 8


def tick(state: JobState) -> None:
    """One sample of every record, and whatever follows from it."""
    read_ranks(state)
    follow_ranks(state)
    judge_waits(state, {**state.samples, **state.absent.samples()})
    ask_dumps_after_death(state)
    cancel_late_sample(state)
    take_result(state)
    serve_leader(state)
    if not is_being_ended(state):
        samples = state.nodes.samples(state.snapshot, state.samples)
        end_episode(state, samples)
        confirm_end(state)
        begin_episode(state, samples)
        follow_episode(state, samples)
        if state.tasks.asked_s() is None:
            follow_moving_job(state)
    follow_what_was_started(state)
    show(state)


# The ranks


def read_ranks(state: JobState) -> None:
    """Every record, and the state of every process."""
    state.members.refresh()
    state.samples = state.members.samples()
    state.absent.refresh(state.members)


def follow_ranks(state: JobState) -> None:
    """What is noted of the ranks whether they wait or not."""
    if state.samples and not state.can_judge:
        state.can_judge = True
        import unhang.watch.verdict.verdicts  # noqa: F401 - takes a second: now, not when a stall has to be looked into
    state.memory.note(state.members.by_rank)
    state.totals.add(state.samples)
    state.series.add(state.samples)
    state.settings.tick(state.members)


def judge_waits(state: JobState, samples: Mapping[int, RankSample]) -> None:
    """Who waits for whom; nobody says it here where another node does."""
    now_ns = time.monotonic_ns()
    states = state.states = state.detector.rank_states(now_ns, samples)
    cluster = state.nodes.cluster
    if cluster is None:
        state.snapshot = state.detector.judge(now_ns, states)
        return
    cluster.watched, judged = state.live.wanted(), cluster.gives_verdicts
    pace, calls = state.moving.stragglers.told, state.moving.drift.call_digests
    cluster.tick(now_ns, samples, states, deaths=state.members.deaths, pace=pace, calls=calls)
    for line in state.nodes.lines():
        state.folder.say(announcements.line(line))
    if judged and not cluster.gives_verdicts:  # another node's watcher judges from now on
        end_child_of_wait(state)
        state.episode = state.ended_episode = None
    state.snapshot = cluster.judge(state.detector, now_ns, states)


def ask_dumps_after_death(state: JobState) -> None:
    """A rank died: the others' dumps are wanted before the launcher ends them too."""
    deaths = (state.members.deaths, state.nodes.died_ns())
    if deaths == state.deaths_seen:
        return
    state.deaths_seen = deaths
    if state.abort is not None or is_explained_enough(state, state.episode or state.ended_episode):
        return
    state.moving.cancel_requests()
    ask_dumps(state.records)


def is_being_ended(state: JobState) -> bool:
    """By us, or because somebody asked: what the ranks do now tells nothing of why they waited."""
    if state.abort is not None:
        return True
    asked_s = state.tasks.asked_s()
    if asked_s is None:
        return False
    ends = [member.ended_s for member in state.members.by_rank.values() if member.ended_s is not None]
    return time.time() - asked_s < JOB_EXIT_LIMIT_S or any(ended_s >= asked_s for ended_s in ends)


# What a sample came to


def cancel_late_sample(state: JobState) -> None:
    """Somebody asked the job to end: how it unwinds must not take the place of what was found while it waited."""
    if is_explained_enough(state, state.episode):
        end_child_of_wait(state)


def is_explained_enough(state: JobState, episode: StallEpisode | None) -> bool:
    """Its ranks were sampled, and somebody has asked the job to end."""
    return episode is not None and episode.last is not None and state.tasks.asked_s() is not None


def take_result(state: JobState) -> None:
    """What a sample came to, if one has just ended."""
    if state.child is None or not state.child.over():
        return
    child, state.child = state.child, None
    state.totals.failed_samples += child.process.failed
    if child.request.leader_number is not None:
        send_to_leader(state, child)
    elif child.request.of_moving_job:
        take_pace_result(state, child.answer())
    elif state.episode is not None and (answer := child.answer()) is not None:
        take_wait_result(state, state.episode, *answer)


def send_to_leader(state: JobState, child: DiagnosisChild) -> None:
    """``child`` took evidence for the leader: it is on its way."""
    if state.nodes.cluster is not None and child.request.leader_number is not None:
        state.nodes.cluster.announce_evidence(child.request.leader_number)


def take_wait_result(state: JobState, episode: StallEpisode, summary: VerdictSummary, text: str) -> None:
    """Say it where it is worth that, and do what the user wished for."""
    if state.nodes.in_doubt():
        episode.discard_last_sample()
        return
    episode.heard(summary, text)
    worth_saying = should_report(state.plan, summary, episode)
    wished = should_abort(state.plan, summary, episode) and not is_being_ended(state) and not state.tasks.over()
    ends = wished and (worth_saying or episode.said is not None)
    if worth_saying or (episode.said is not None and not episode.changed):
        kept_evidence.publish(state.folder.path)
    if worth_saying and not state.nodes.was_reported_before(summary):
        report_episode(state, episode, summary, text, ends=ends)
        if state.plan.on_hang_exec and summary.level == VerdictLevel.STALL.value:
            end_job.run_command(state.plan.on_hang_exec, state.folder, state.plan.cwd)
    if ends:
        state.nodes.say(summary, state.folder.verdict, abort=True)
        abort(state, summary)


def take_pace_result(state: JobState, answer: tuple[VerdictSummary, str] | None) -> None:
    """Of a job that moves: a verdict is said once."""
    if answer is not None and answer[0].level == VerdictLevel.SLOW.value:
        kept_evidence.publish(state.folder.path)
        kept_evidence.save_slow_verdict(state.folder.path)
        if state.moving.is_new(answer[0]):
            report_verdict(state, *answer)
            state.totals.findings.append(answer[0].cause)
        return
    if "collective-mismatch" not in state.totals.findings:
        state.moving.drift.try_again()
    if state.episode is None:
        kept_evidence.discard_sample(state.folder.path)


# Where another node leads


def serve_leader(state: JobState) -> None:
    """Take the sample that the leader asks for, and show what it said."""
    cluster = state.nodes.cluster
    if cluster is None:
        return
    asked = cluster.take_sample_request()
    if asked is not None:
        since_s = time.time() - (time.monotonic_ns() - asked.since_ns) / 1e9 if asked.since_ns >= 0 else None
        request = next_request(state, since_s, with_stacks=asked.with_stacks, live=asked.live)
        if asked.samples:
            request = state.moving.as_pace_request(request, min(asked.samples, MAX_PACE_SAMPLES), state.members)
        end_child(state)  # it goes before any of our own
        start(state, replace(request, leader_number=asked.number, pack_for=cluster.pack_path))
    said = cluster.take_leader_verdict()
    if said is None:
        return
    summary, before = said.summary, state.nodes.heard_summary
    if said.ended:
        if state.nodes.heard is not None:
            state.nodes.heard = state.said = None
            state.folder.say(announcements.stall_over_line(summary))
            state.totals.note_stall_over(summary.cause)
            kept_evidence.discard_sample(state.folder.path)
        return
    state.nodes.heard, state.said = said, summary
    if said.verdict:
        with suppress(OSError):
            private_files.write_atomically(state.folder.verdict, said.verdict)
    if before != summary:
        state.folder.say(announcements.line(leader_verdict_line(said, state.plan.lang)))
        state.totals.found(summary.cause)
    if said.abort and state.plan.on_hang == "abort" and state.abort is None:
        abort(state, summary)


# A wait, from its first second to its end


def end_episode(state: JobState, samples: Mapping[int, RankSample]) -> None:
    """The rank that waited longest waits no more: whether the wait is over is confirmed later."""
    episode = state.episode
    if episode is None or episode.is_ongoing(state.snapshot, samples):
        return
    state.episode = None
    end_child_of_wait(state)
    if episode.was_sampled:
        state.ended_episode, state.end_confirmed_at = episode, time.monotonic() + END_CONFIRM_S


def confirm_end(state: JobState) -> None:
    """A wait ended some time ago: by itself, or because its job came to an end."""
    episode = state.ended_episode
    if episode is None or time.monotonic() <= state.end_confirmed_at or state.tasks.asked_s() is not None:
        return  # who was asked to end may take its time, and does not go on
    state.ended_episode = None
    if ended_since(state, episode):
        state.left = episode
        state.failure_explained |= episode.said is not None and episode.said.explains_the_end
    else:
        wait_is_over(state, episode)


def ended_since(state: JobState, episode: StallEpisode) -> bool:
    """Ranks ended during ``episode``, or who waited gave up with an exception in the thread that trains: it did not end
    by itself, the job did, and its verdict stands."""
    if any(ended_ns > episode.noticed_ns for ended_ns in state.ends()):
        return True
    raised_ns = exit_evidence.last_exception_ns(state.folder.path, episode.snapshot.waiters)
    return time.time_ns() - raised_ns < time.monotonic_ns() - episode.noticed_ns


def begin_episode(state: JobState, samples: Mapping[int, RankSample]) -> None:
    """Somebody waits for a while: a wait begins, or goes on that seemed to be over."""
    snapshot, ended = state.snapshot, state.ended_episode
    if snapshot is None or state.episode is not None or snapshot.waited_s < WAIT_NOTICED_S:
        return
    ended_for_s = time.monotonic() - (state.end_confirmed_at - END_CONFIRM_S)
    if ended is not None and ended.is_same_wait(snapshot, ended_for_s):
        state.episode, state.ended_episode = ended, None
    else:
        steps = (step_ns for sample in samples.values() for step_ns in sample.view.step_durations_ns)
        longest_s = max(state.detector.usual.laggard_working_s, max(steps, default=0) / 1e9)
        state.episode = StallEpisode(snapshot, longest_s=longest_s)


def follow_episode(state: JobState, samples: Mapping[int, RankSample]) -> None:
    """Note how the wait goes on, say the lines that are due, and sample when it is time."""
    episode, snapshot = state.episode, state.snapshot
    has_just_died = time.monotonic_ns() - max(state.ends(), default=0) < 1e9 * CRASH_GRACE_S
    if episode is None or snapshot is None or has_just_died:
        return
    episode.snapshot = snapshot
    if episode.said is None:
        state.machine.ask()
    work = planned_wait(time.monotonic_ns(), snapshot, samples)
    episode.note_work(work, snapshot)
    say_lines_of_wait(state, episode, snapshot, work)
    if state.child is None and snapshot.due and is_sample_due(state, episode, snapshot):
        sample_wait(state, episode, snapshot)


def say_lines_of_wait(state: JobState, episode: StallEpisode, snapshot: WaitSnapshot, work: PlannedWait | None) -> None:
    """The quiet line, once; when the job's own limit comes near, how long is left."""
    if episode.is_quiet_line_due():
        episode.is_quiet_line_printed = True
        members = state.nodes.members(state.members, snapshot)
        state.folder.say(announcements.waiting_line(snapshot, members, episode.last, work))
    if line := episode.countdown(time.time()):
        state.folder.say(line)


def is_sample_due(state: JobState, episode: StallEpisode, snapshot: WaitSnapshot) -> bool:
    """Not while a wait that was spoken of has just ended, perhaps with its job: nothing takes its evidence's place."""
    ended = state.ended_episode
    if (ended is not None and ended.said is not None) or is_explained_enough(state, episode):
        return False
    return episode.is_sample_due(snapshot, patience_limits_s(state.plan, episode))


def sample_wait(state: JobState, episode: StallEpisode, snapshot: WaitSnapshot) -> None:
    """Sample the ranks of this wait, here and on other nodes."""
    state.ended_episode = None  # nothing was said of it: the new sample takes the place of its evidence
    request = replace(
        next_request(state, time.time() - snapshot.waited_s, with_stacks=episode.wants_stacks),
        waited_s=snapshot.waited_s,
        before_steps=not snapshot.rhythm,
        noticed_after_s=episode.said.noticed_after_s if episode.said is not None else None,
        borne_s=episode.planned_until_s + borne_s(state.plan, episode),
        said=episode.said_of_same,
    )
    episode.mark_sampled(snapshot)
    start(state, state.nodes.ask(request, snapshot))


# A job that moves


def follow_moving_job(state: JobState) -> None:
    """Who holds the ranks up, and whether they call the same: sample where that is to be asked."""
    wait_s = state.episode.snapshot.waited_s if state.episode is not None else 0.0
    if wait_s <= LONG_STEP_S and state.ended_episode is None:
        slow = state.nodes.slowest(state.moving, state.samples)
        if slow is not None and state.child is None:
            sample_straggler(state, slow)
    if state.child is not None or wait_s > LONG_STEP_S:
        return
    if state.episode is None and state.ends():
        return  # the dumps the others make now are wanted
    completed = state.moving.learn_step_period(state.members)
    if state.episode is None and state.ended_episode is None:
        compare_calls(state, completed)


def sample_straggler(state: JobState, slow: SlowestRank) -> None:
    """Sample a job that moves at the pace of one rank a few times in a row."""
    request = next_request(state, None, with_stacks=False)
    request = state.moving.as_pace_request(request, STRAGGLER_SAMPLES, state.members)
    request = state.nodes.with_remote_pace(request, slow, state.moving.stragglers)
    start(state, replace(request, of_moving_job=True))


def compare_calls(state: JobState, completed: int) -> None:
    """Now and then; where ranks called different things, here or between nodes, they are sampled."""
    if not state.moving.is_period_known:
        return
    compared = state.moving.drift.tick(completed)
    nodes = state.nodes.nodes_with_other_calls(state.moving.drift.checks) if compared is None else []
    if compared is None and not nodes:
        return
    request = next_request(state, None, with_stacks=False)
    request = state.moving.as_pace_request(request, DRIFT_SAMPLES, state.members)
    machine = {**request.machine, "compared.json": compared or b""}
    request = replace(request, machine=machine, of_moving_job=True)
    start(state, state.nodes.with_remote_calls(request, nodes))


# What goes on beside


def follow_what_was_started(state: JobState) -> None:
    """The user's command, the end of the job, and processes of ours."""
    if state.plan.on_hang_exec:
        for trouble in end_job.failed_command_lines(state.folder):
            state.folder.say(announcements.line(trouble))
    if state.abort is not None:
        state.abort.tick()
    if state.metrics is not None:
        state.metrics.reap()
    state.history.answer()


def show(state: JobState) -> None:
    """The run as it is now, for who looks at it."""
    if state.live.due():
        state.live.write(live_state(state, state.snapshot))
