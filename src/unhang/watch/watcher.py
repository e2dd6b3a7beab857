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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from unhang.watch import end_job as ending
from unhang.watch import hang_policy, saved_sample, state_at_verdict
from unhang.watch.control_file import open_control
from unhang.watch.job.absent_ranks import AbsentRanks
from unhang.watch.job.job_ranks import JobRanks, output_files
from unhang.watch.job.planned_waits import PlannedWait, planned_wait
from unhang.watch.job.wait_detection import RankSample, WaitDetector, WaitSnapshot
from unhang.watch.launch import signals
from unhang.watch.launch.records_folder import alive_lock, watcher_lock
from unhang.watch.launch.run_settings import SettingsCollector
from unhang.watch.launch.tasks import Tasks
from unhang.watch.launch.watcher_process import EXIT_ALREADY_WATCHED
from unhang.watch.leader_tasks import LeaderTasks
from unhang.watch.machine.memory_evidence import MemoryWatch
from unhang.watch.machine.sampler_process import SamplerProcess
from unhang.watch.moving_job import MovingJob
from unhang.watch.observers import RunObservers
from unhang.watch.pace.rank_series import RankSeries
from unhang.watch.reporting import announcements
from unhang.watch.reporting.run_totals import RunTotals
from unhang.watch.reporting.verdict_summary import VerdictLevel, VerdictSummary
from unhang.watch.run_folder import RunFolder, RunPlan
from unhang.watch.run_shutdown import RunShutdown
from unhang.watch.sampling import earlier_evidence, exit_evidence
from unhang.watch.stall_episode import StallEpisode
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.watch.verdict.evidence_request import EvidenceRequest

TICK_S = 0.25
QUICK_TICK_S = 0.1
"""Of a node that follows, while somebody waits: what the leader asks for is on the way to its verdict."""
NICE = 5
CRASH_GRACE_S = 1.2
"""A launcher ends the other ranks within moments after one died; before that there is no stall."""
PAUSE_PHASES = ("eval", "save")
"""Phases for which most jobs pause on one rank, and go on."""
END_CONFIRM_S = 3.0
"""A wait that ends because ranks are being ended looks at first as if it ended by itself."""
JOB_EXIT_LIMIT_S = 30.0
"""So long ranks may take to end after they were asked to; torchrun waits as long before it kills them."""


class Watcher:
    """One run, from its first rank to its last."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.plan: RunPlan = folder.read_plan()
        announcements.set_language(self.plan.lang)
        self.records = Path(self.plan.records)
        self.members = JobRanks(self.records)
        self.absent = AbsentRanks()
        self.detector = WaitDetector()
        self.totals = RunTotals()
        self.episode: StallEpisode | None = None
        self.child: DiagnosisChild | None = None
        self.samples = 0
        self.deaths = self.remote_death_ns = 0
        self.memory = MemoryWatch()
        self.series = RankSeries(folder.path)
        self.settings = SettingsCollector(folder, self.plan)
        self.moving = MovingJob(self)
        self.failure_explained = False
        self.ended_episode: StallEpisode | None = None
        self.end_confirmed_at = 0.0
        self.left: StallEpisode | None = None
        self.loaded = False
        self.abort: ending.Abort | None = None
        self.tasks = Tasks(self.records)
        self.job_outputs = output_files(self.plan.job_pid)
        self.observers = RunObservers(self)
        self.machine = SamplerProcess(folder.path, self.records)
        self.said: VerdictSummary | None = None
        """The last verdict that was printed."""
        self.nodes = LeaderTasks(self)
        earlier_evidence.restore(folder.path)
        state_at_verdict.restore(folder.path)
        control = open_control(self.records)
        if control is not None:
            control.now.watcher_pid = os.getpid()
            control.publish()
            control.close()

    def run(self) -> None:
        """Watch until the command has ended, then say the last words."""
        while not self.tasks.over():
            sample = self.child.pidfd if self.child is not None else None
            self.members.wait(QUICK_TICK_S if self.nodes.is_urgent else TICK_S, (self.tasks.wait_pidfd, sample))
            self._note_deaths()
            self.tick()
        RunShutdown(self).close()

    def tick(self) -> None:
        """One sample of every record, and whatever follows from it."""
        self.members.refresh()
        now_ns = time.monotonic_ns()
        samples = self.members.samples()
        if samples and not self.loaded:
            self.loaded = True
            import unhang.watch.verdict.verdicts  # noqa: F401 - takes a second: now, not when a stall has to be looked into
        self.memory.note(self.members.by_rank)
        self.totals.add(samples)
        self.series.add(samples)
        self.settings.tick(self.members)
        self.absent.refresh(self.members)
        snapshot = self.nodes.judge(now_ns, {**samples, **self.absent.samples()})
        self._note_deaths()
        self._cancel_late_sample()
        self.take_result()
        self.nodes.follow()
        if not self._being_ended:
            self._follow(snapshot, self.nodes.samples(snapshot, samples))
            if self.tasks.asked_s() is None:
                self.moving.tick(samples)
        for trouble in ending.failed_command_lines(self.folder):
            self.folder.say(announcements.line(trouble))
        if self.abort is not None:
            self.abort.tick()
        self.observers.tick(snapshot)

    def report_verdict(self, summary: VerdictSummary, text: str, *, ends: bool = False) -> None:
        """Print it, and tell the other nodes. ``ends``: the job is ended because of it."""
        self.said = summary
        self.folder.say(announcements.verdict(summary, text, self.folder.path, ends=ends))
        self.folder.mark_verdict_end()
        self.nodes.say(summary)

    def report_episode(self, episode: StallEpisode, summary: VerdictSummary, text: str, *, ends: bool = False) -> None:
        """Print the verdict on ``episode``, and that it has changed where another was printed before."""
        before = episode.said
        if before is not None:
            self.folder.say(announcements.changed_line(before, summary))
        self.report_verdict(summary, text, ends=ends)
        self.totals.found(summary.cause, instead_of=before.cause if before is not None else None)
        episode.say(summary)

    @property
    def _being_ended(self) -> bool:
        """By us, or because somebody asked: what the ranks do now tells nothing of why they waited."""
        if self.abort is not None:
            return True
        asked_s = self.tasks.asked_s()
        if asked_s is None:
            return False
        ends = [member.ended_s for member in self.members.by_rank.values() if member.ended_s is not None]
        return time.time() - asked_s < JOB_EXIT_LIMIT_S or any(ended_s >= asked_s for ended_s in ends)

    def _cancel_late_sample(self) -> None:
        """Somebody asked the job to end: how it unwinds must not take the place of what was found while it waited."""
        child = self.child
        if child is None or self.moving.is_ours(child) or not self._is_explained_enough(self.episode):
            return
        child.end()
        self.child = None

    def _is_explained_enough(self, episode: StallEpisode | None) -> bool:
        return episode is not None and episode.last is not None and self.tasks.asked_s() is not None

    def _note_deaths(self) -> None:
        """A rank died: the others' dumps are wanted before the launcher ends them too."""
        died_ns = self.nodes.died_ns()
        if self.members.deaths == self.deaths and died_ns == self.remote_death_ns:
            return
        self.deaths, self.remote_death_ns = self.members.deaths, died_ns
        if self.abort is not None or self._is_explained_enough(self.episode or self.ended_episode):
            return
        self.moving.cancel_requests()
        control = open_control(self.records)
        if control is not None:
            control.ask_dump()
            control.close()

    def hand_over(self) -> None:
        """Another node's watcher judges from now on."""
        if self.child is not None and not self.moving.is_ours(self.child):
            self.child.end()
            self.child = None
        self.episode = self.ended_episode = None

    def _follow(self, snapshot: WaitSnapshot | None, samples: Mapping[int, RankSample]) -> None:
        episode = self.episode
        if episode is not None and not episode.is_ongoing(snapshot, samples):
            self.episode = None
            if self.child is not None and not self.moving.is_ours(self.child):
                self.child.end()
                self.child = None
            if episode.was_sampled:
                self.ended_episode, self.end_confirmed_at = episode, time.monotonic() + END_CONFIRM_S
        self._confirm_end()
        if snapshot is None:
            return
        if self.episode is None and snapshot.waited_s >= 0.5:
            self.episode = self._resumed_episode(snapshot) or StallEpisode(snapshot, longest_s=self._seen_s(samples))
            self.machine.ask()
        if self.episode is None or self._rank_just_died():
            return
        self.episode.snapshot = snapshot
        work = planned_wait(time.monotonic_ns(), snapshot, samples)
        self.episode.note_work(work, snapshot)
        late = [samples[rank].view.phase for rank in snapshot.laggards if rank in samples]
        self.episode.is_usual_pause = any(phase in PAUSE_PHASES for phase in late)
        self._quiet_line(self.episode, snapshot, work)
        self._countdown(self.episode)
        if self.child is None and snapshot.due and self._is_sample_due(self.episode, snapshot):
            self._order(self.episode, snapshot)

    def _seen_s(self, samples: Mapping[int, RankSample]) -> float:
        steps = (step_ns for sample in samples.values() for step_ns in sample.view.step_durations_ns)
        return max(self.detector.usual.laggard_working_s, max(steps, default=0) / 1e9)

    def _resumed_episode(self, snapshot: WaitSnapshot) -> StallEpisode | None:
        """The wait that seemed to be over, where it is not."""
        for_s = time.monotonic() - (self.end_confirmed_at - END_CONFIRM_S)
        if self.ended_episode is None or not self.ended_episode.is_same_wait(snapshot, for_s):
            return None
        episode, self.ended_episode = self.ended_episode, None
        return episode

    def _is_sample_due(self, episode: StallEpisode, snapshot: WaitSnapshot) -> bool:
        if self._reported_wait_just_ended() or self._is_explained_enough(episode):
            return False
        return episode.is_sample_due(snapshot, hang_policy.patience_limits_s(self.plan, episode))

    def _reported_wait_just_ended(self) -> bool:
        """A wait that was spoken of has just ended, perhaps with its job: nothing takes the place of its evidence."""
        return self.ended_episode is not None and self.ended_episode.said is not None

    def _confirm_end(self) -> None:
        """A wait ended some time ago: by itself, or because its job came to an end."""
        episode = self.ended_episode
        if episode is None or time.monotonic() <= self.end_confirmed_at or self.tasks.asked_s() is not None:
            return  # who was asked to end may take its time, and does not go on
        self.ended_episode = None
        if self._deaths_since(episode):
            self.left = episode
            self.failure_explained = self.failure_explained or (
                episode.said is not None and episode.said.explains_the_end
            )
            return
        self.wait_is_over(episode)

    def wait_is_over(self, episode: StallEpisode) -> None:
        """It ended by itself: its verdict is history."""
        if episode.said is None:
            saved_sample.discard(self.folder.path)
            return
        self.folder.say(announcements.stall_over_line(episode.said, episode.snapshot.waiters))
        self.totals.note_stall_over(episode.said.cause)
        self.nodes.over(episode.said)
        self.said = None
        saved_sample.archive(self.folder.path, episode.number)

    def _deaths_since(self, episode: StallEpisode) -> bool:
        """Ranks ended during ``episode``, or who waited gave up with an exception in the thread that trains: it did not
        end by itself, the job did, and its verdict stands."""
        if any(ended_ns > episode.noticed_ns for ended_ns in self.ends()):
            return True
        raised_ns = exit_evidence.last_exception_ns(self.folder.path, episode.snapshot.waiters)
        return time.time_ns() - raised_ns < time.monotonic_ns() - episode.noticed_ns

    def _rank_just_died(self) -> bool:
        return time.monotonic_ns() - max(self.ends(), default=0) < 1e9 * CRASH_GRACE_S

    def ends(self) -> list[int]:
        """When ranks ended, those of other nodes as we heard of it."""
        own = [m.ended_ns for m in self.members.by_rank.values() if m.ended_ns is not None]
        return [*own, died_ns] if (died_ns := self.nodes.died_ns()) else own

    def _order(self, episode: StallEpisode, snapshot: WaitSnapshot) -> None:
        self.ended_episode = None  # nothing was said of it: the new sample takes the place of its evidence
        order = self.next_request(time.time() - snapshot.waited_s, with_stacks=episode.wants_stacks)
        if episode.said is not None:
            order = replace(order, noticed_after_s=episode.said.noticed_after_s)
        order = replace(order, idle_limit_s=hang_policy.idle_limit_s(self.plan, episode))
        episode.mark_sampled(snapshot)
        order = self.nodes.ask(order, snapshot)
        self.child = DiagnosisChild.start(order, self.folder, waited_s=snapshot.waited_s, width=self.plan.width)

    def begin(self, order: EvidenceRequest, *, pack_for: Path) -> None:
        """Begin such a sample; it goes before any of our own."""
        if self.child is not None:
            self.child.end()
        self.child = DiagnosisChild.start(order, self.folder, waited_s=0.0, width=self.plan.width, pack_for=pack_for)

    def next_request(self, since_s: float | None, *, with_stacks: bool, live: bool = True) -> EvidenceRequest:
        """The next sample of our own ranks."""
        self.samples += 1
        self.moving.cancel_requests()
        return EvidenceRequest(
            number=self.samples,
            records=self.records,
            members={**self.members.by_rank, **self.absent.by_rank},
            world_size=self.members.world_size,
            job_outputs=self.job_outputs,
            stalled_since_s=since_s,
            with_stacks=with_stacks,
            live=live,
            memory=self.memory.lines(self.members.by_rank),
            kernel=self.memory.kernel_lines(self.members.by_rank),
            earlier=self.observers.earlier(),
            command=tuple(self.plan.command),
            cwd=self.plan.cwd,
            lang=self.plan.lang,
        )

    def take_result(self) -> None:
        """What a sample came to, if one has just ended."""
        if self.child is None or not self.child.over():
            return
        child, self.child = self.child, None
        self.totals.failed_samples += child.failed
        if self.nodes.was_for_leader(child):
            return
        answer = child.answer()
        if self.moving.is_ours(child):
            self.moving.hear(answer)
            return
        if answer is None or self.episode is None:
            return
        if self.nodes.in_doubt():
            self.episode.discard_last_sample()
            return
        summary, text = answer
        self.episode.heard(summary, text)
        worth_saying = hang_policy.should_report(self.plan, summary, self.episode)
        ends = (worth_saying or self.episode.said is not None) and self._should_abort(summary, self.episode)
        if worth_saying and not self.nodes.was_reported_before(summary):
            self.report_episode(self.episode, summary, text, ends=ends)
            if self.plan.on_hang_exec and summary.level == VerdictLevel.STALL.value:
                ending.run_command(self.plan.on_hang_exec, self.folder, self.plan.cwd)
        if ends:
            self.nodes.say(summary, abort=True)
            self.end_job(summary)

    def _should_abort(self, summary: VerdictSummary, episode: StallEpisode) -> bool:
        """Whether the user wished for an end because of this, and the job is not ending anyway."""
        return hang_policy.should_abort(self.plan, summary, episode) and not self._being_ended and not self.tasks.over()

    def end_job(self, summary: VerdictSummary) -> None:
        """``--on-hang abort``: what was found stays as it is from now on."""
        self.folder.say(announcements.aborting(summary))
        self.moving.cancel_requests()
        if self.child is not None:
            self.child.end()
            self.child = None
        state_at_verdict.set_aside(self.folder.path)
        self.abort = ending.Abort(self.tasks.pids, self.records)

    def _quiet_line(self, episode: StallEpisode, snapshot: WaitSnapshot, work: PlannedWait | None) -> None:
        if not episode.is_quiet_line_printed and announcements.is_worth_a_line(snapshot) and episode.said is None:
            episode.is_quiet_line_printed = True
            self.folder.say(announcements.waiting_line(snapshot, self.nodes.members(snapshot), episode.last, work))

    def _countdown(self, episode: StallEpisode) -> None:
        if episode.said is not None:
            line = episode.countdown(time.time())
            if line:
                self.folder.say(line)


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
        Watcher(folder).run()
    except Exception:  # noqa: BLE001 - the process edge: the command runner may try again
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
