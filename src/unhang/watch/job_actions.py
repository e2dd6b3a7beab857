"""What the steps of a tick and the end of a run do: begin a sample or end it, print a verdict, end the job."""

from __future__ import annotations

from unhang.watch import end_job
from unhang.watch.job.wait_detection import RankState, WaitSnapshot
from unhang.watch.job_state import JobState
from unhang.watch.nodes.rank_digest import NodeRanks
from unhang.watch.reporting import announcements
from unhang.watch.reporting.live_snapshot import hosts_of, snapshot_of, with_failed_exits
from unhang.watch.sampling import kept_evidence
from unhang.watch.stall_episode import StallEpisode
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.watch.verdict.evidence_request import EvidenceRequest
from unhang.wire.documents.live_state import LiveState, RankActivity
from unhang.wire.documents.verdict_summary import VerdictSummary


def next_request(state: JobState, since_s: float | None, *, with_stacks: bool, live: bool = True) -> EvidenceRequest:
    """The next sample of our own ranks."""
    state.requests += 1
    state.moving.cancel_requests()
    return EvidenceRequest(
        number=state.requests,
        records=state.records,
        members=state.everyone,
        world_size=state.members.world_size,
        job_outputs=state.job_outputs,
        stalled_since_s=since_s,
        with_stacks=with_stacks,
        live=live,
        machine={
            "memory.log": state.memory.lines(state.members.by_rank),
            "kernel.log": state.memory.kernel_lines(state.members.by_rank),
            "history.json": state.history.answer() or b"",
        },
        command=tuple(state.plan.command),
        cwd=state.plan.cwd,
        lang=state.plan.lang,
        width=state.plan.width,
    )


def start(state: JobState, request: EvidenceRequest) -> None:
    """Begin the sample."""
    state.child = DiagnosisChild.start(request, state.folder)


def end_child_of_wait(state: JobState) -> None:
    """Its sample is wanted no more; one of a job that moves goes on."""
    if state.child is not None and not state.child.request.of_moving_job:
        end_child(state)


def end_child(state: JobState) -> None:
    """End the sample that goes on, if any."""
    if state.child is not None:
        state.child.end()
        state.child = None


def report_episode(
    state: JobState, episode: StallEpisode, summary: VerdictSummary, text: str, *, ends: bool = False
) -> None:
    """Print the verdict on ``episode``; of one on the same cause that was printed before only what has changed."""
    before = episode.said
    if before is not None:
        text = announcements.changed(before, summary, text)
    report_verdict(state, summary, text, ends=ends)
    state.totals.found(summary.cause, instead_of=before.cause if before is not None else None)
    episode.say(summary)


def report_verdict(state: JobState, summary: VerdictSummary, text: str, *, ends: bool = False) -> None:
    """Print it, and tell the other nodes. ``ends``: the job is ended because of it."""
    state.said = summary
    kept_evidence.publish(state.folder.path)
    state.folder.say(announcements.verdict(summary, text, state.folder.path, ends=ends))
    state.folder.mark_verdict_end()
    state.nodes.say(summary, state.folder.verdict)


def wait_is_over(state: JobState, episode: StallEpisode) -> None:
    """It ended by itself: its verdict is history."""
    if episode.said is None:
        kept_evidence.discard_sample(state.folder.path)
        return
    state.folder.say(announcements.stall_over_line(episode.said, episode.snapshot.waiters))
    state.totals.note_stall_over(episode.said.cause)
    state.nodes.over(episode.said)
    state.said = None
    kept_evidence.archive_sample(state.folder.path, episode.number)


def abort(state: JobState, summary: VerdictSummary) -> None:
    """``--on-hang abort``: what was found stays as it is from now on."""
    state.folder.say(announcements.aborting(summary))
    state.moving.cancel_requests()
    end_child(state)
    kept_evidence.set_judged_aside(state.folder.path)
    state.abort = end_job.Abort(state.tasks.pids, state.records)


def live_state(state: JobState, wait: WaitSnapshot | None, *, ended: bool = False) -> LiveState:
    """The ranks of all nodes, and what was found."""
    everyone = state.everyone
    doing = with_failed_exits(state.detector.doing, everyone, state.folder.path)
    unknown = RankState(RankActivity.BUSY, None, stuck=False, in_init=False, rhythm=False)
    states = {
        rank: state.states.get(rank, unknown)._replace(doing=doing.get(rank, RankActivity.BUSY)) for rank in everyone
    }
    snapshot = snapshot_of(
        state.plan,
        state.folder.path,
        NodeRanks({rank: member.sample() for rank, member in everyone.items()}, states),
        node_of=hosts_of(everyone),
        world_size=state.members.world_size,
        wait=wait,
        said=state.said,
        totals=state.totals,
        ended=ended,
    )
    return state.nodes.live(snapshot)
