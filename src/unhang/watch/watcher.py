"""The watcher: reads the ranks' records a few times a second and sees to it that a stall is looked into.

``python -m unhang.watch.watcher RUN_FOLDER``. Started by the front process, in a session of its own, with a low
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
from unhang.watch.closing import Closing
from unhang.watch.control_file import open_control
from unhang.watch.job.absent_ranks import Absent
from unhang.watch.job.detection import Detector, RankLook, Standing
from unhang.watch.job.members import Members, outputs_of
from unhang.watch.job.planned_waits import Planned, planned
from unhang.watch.launch import signals
from unhang.watch.launch.records_folder import alive, watching
from unhang.watch.launch.run_settings import SettingsChild
from unhang.watch.launch.tasks import Tasks
from unhang.watch.launch.watcher_process import ANOTHER_WATCHES
from unhang.watch.leader_tasks import NodeDuties
from unhang.watch.machine.memory_counters import MemoryWatch
from unhang.watch.machine.sampler_process import SamplerProcess
from unhang.watch.moving_job import MovingJob
from unhang.watch.observers import Onlookers
from unhang.watch.pace.rank_series import RankSeries
from unhang.watch.reporting import announcements
from unhang.watch.reporting.run_totals import Totals
from unhang.watch.reporting.verdict_summary import Level, Summary
from unhang.watch.run_folder import RunFolder, RunPlan
from unhang.watch.sampling import earlier_evidence, exit_evidence
from unhang.watch.stall_episode import Episode
from unhang.watch.verdict.diagnosis_child import Child
from unhang.watch.verdict.evidence_request import Order

TICK_S = 0.25
QUICK_TICK_S = 0.1
"""Of a node that follows, while somebody waits: what the leader asks for is on the way to its verdict."""
NICE = 5
CRASH_GRACE_S = 1.2
"""A launcher ends the other ranks within moments after one died; before that there is no stall."""
PAUSES = ("eval", "save")
"""Phases for which most jobs pause on one rank, and go on."""
FADING_S = 3.0
"""A wait that ends because ranks are being ended looks at first as if it ended by itself."""
UNWINDS_S = 30.0
"""So long ranks may take to end after they were asked to; torchrun waits as long before it kills them."""


class Watcher:
    """One run, from its first rank to its last."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.plan: RunPlan = folder.read_plan()
        announcements.speak(self.plan.lang)
        self.records = Path(self.plan.records)
        self.members = Members(self.records)
        self.absent = Absent()
        self.detector = Detector()
        self.totals = Totals()
        self.episode: Episode | None = None
        self.child: Child | None = None
        self.looks = 0
        self.deaths = self.died_elsewhere_ns = 0
        self.memory = MemoryWatch()
        self.series = RankSeries(folder.path)
        self.settings = SettingsChild(folder, self.plan)
        self.moving = MovingJob(self)
        self.explained = False
        self.fading: Episode | None = None
        self.faded_at = 0.0
        self.left: Episode | None = None
        self.loaded = False
        self.abort: ending.Abort | None = None
        self.tasks = Tasks(self.records)
        self.job_outputs = outputs_of(self.plan.job_pid)
        self.onlookers = Onlookers(self)
        self.machine = SamplerProcess(folder.path, self.records)
        self.said: Summary | None = None
        """The last verdict that was printed."""
        self.nodes = NodeDuties(self)
        earlier_evidence.restore(folder.path)
        state_at_verdict.bring_back(folder.path)
        control = open_control(self.records)
        if control is not None:
            control.now.watcher_pid = os.getpid()
            control.publish()
            control.close()

    def run(self) -> None:
        """Watch until the command has ended, then say the last words."""
        while not self.tasks.over():
            look = self.child.pidfd if self.child is not None else None
            self.members.wait(QUICK_TICK_S if self.nodes.hurries else TICK_S, (self.tasks.waited_on, look))
            self._note_deaths()
            self.tick()
        Closing(self).close()

    def tick(self) -> None:
        """One look at every record, and whatever follows from it."""
        self.members.refresh()
        now_ns = time.monotonic_ns()
        looks = self.members.looks()
        if looks and not self.loaded:
            self.loaded = True
            import unhang.watch.verdict.verdicts  # noqa: F401 - takes a second: now, not when a stall has to be looked into
        self.memory.note(self.members.by_rank)
        self.totals.add(looks)
        self.series.add(looks)
        self.settings.go_on(self.members)
        self.absent.refresh(self.members)
        standing = self.nodes.judge(now_ns, {**looks, **self.absent.looks()})
        self._note_deaths()
        self._drop_late_look()
        self.take_answer()
        self.nodes.follow()
        if not self._being_ended:
            self._follow(standing, self.nodes.looks(standing, looks))
            if self.tasks.asked_s() is None:
                self.moving.go_on(looks)
        for trouble in ending.troubles(self.folder):
            self.folder.say(announcements.line(trouble))
        if self.abort is not None:
            self.abort.go_on()
        self.onlookers.go_on(standing)

    def say_verdict(self, summary: Summary, text: str, *, ends: bool = False) -> None:
        """Print it, and tell the other nodes. ``ends``: the job is ended because of it."""
        self.said = summary
        self.folder.say(announcements.verdict(summary, text, self.folder.path, ends=ends))
        self.folder.note_verdict()
        self.nodes.say(summary)

    def say_of(self, episode: Episode, summary: Summary, text: str, *, ends: bool = False) -> None:
        """Print the verdict on ``episode``, and that it has changed where another was printed before."""
        before = episode.said
        if before is not None:
            self.folder.say(announcements.changed(before, summary))
        self.say_verdict(summary, text, ends=ends)
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
        return time.time() - asked_s < UNWINDS_S or any(ended_s >= asked_s for ended_s in ends)

    def _drop_late_look(self) -> None:
        """Somebody asked the job to end: how it unwinds must not take the place of what was found while it waited."""
        child = self.child
        if child is None or self.moving.looked(child) or not self._known_enough(self.episode):
            return
        child.end()
        self.child = None

    def _known_enough(self, episode: Episode | None) -> bool:
        return episode is not None and episode.last is not None and self.tasks.asked_s() is not None

    def _note_deaths(self) -> None:
        """A rank died: the others' dumps are wanted before the launcher ends them too."""
        died_ns = self.nodes.died_ns()
        if self.members.deaths == self.deaths and died_ns == self.died_elsewhere_ns:
            return
        self.deaths, self.died_elsewhere_ns = self.members.deaths, died_ns
        if self.abort is not None or self._known_enough(self.episode or self.fading):
            return
        self.moving.stop_asking()
        control = open_control(self.records)
        if control is not None:
            control.ask_dump()
            control.close()

    def let_go(self) -> None:
        """Another node's watcher judges from now on."""
        if self.child is not None and not self.moving.looked(self.child):
            self.child.end()
            self.child = None
        self.episode = self.fading = None

    def _follow(self, standing: Standing | None, looks: Mapping[int, RankLook]) -> None:
        episode = self.episode
        if episode is not None and not episode.goes_on(standing, looks):
            self.episode = None
            if self.child is not None and not self.moving.looked(self.child):
                self.child.end()
                self.child = None
            if episode.was_looked_at:
                self.fading, self.faded_at = episode, time.monotonic() + FADING_S
        self._fade()
        if standing is None:
            return
        if self.episode is None and standing.waited_s >= 0.5:
            self.episode = self._resumed(standing) or Episode(standing, seen_s=self._seen_s(looks))
            self.machine.ask()
        if self.episode is None or self._dying():
            return
        self.episode.standing = standing
        work = planned(time.monotonic_ns(), standing, looks)
        self.episode.note_work(work, standing)
        late = [looks[rank].view.phase for rank in standing.laggards if rank in looks]
        self.episode.pauses = any(phase in PAUSES for phase in late)
        self._quiet_line(self.episode, standing, work)
        self._countdown(self.episode)
        if self.child is None and standing.due and self._look_due(self.episode, standing):
            self._order(self.episode, standing)

    def _seen_s(self, looks: Mapping[int, RankLook]) -> float:
        steps = (step_ns for look in looks.values() for step_ns in look.view.step_durations_ns)
        return max(self.detector.usual.for_work_s, max(steps, default=0) / 1e9)

    def _resumed(self, standing: Standing) -> Episode | None:
        """The wait that seemed to be over, where it is not."""
        for_s = time.monotonic() - (self.faded_at - FADING_S)
        if self.fading is None or not self.fading.is_the_same(standing, for_s):
            return None
        episode, self.fading = self.fading, None
        return episode

    def _look_due(self, episode: Episode, standing: Standing) -> bool:
        if self._verdict_fades() or self._known_enough(episode):
            return False
        return episode.look_due(standing, hang_policy.patience_s(self.plan, episode))

    def _verdict_fades(self) -> bool:
        """A wait that was spoken of has just ended, perhaps with its job: nothing takes the place of its evidence."""
        return self.fading is not None and self.fading.said is not None

    def _fade(self) -> None:
        """A wait ended some time ago: by itself, or because its job came to an end."""
        episode = self.fading
        if episode is None or time.monotonic() <= self.faded_at or self.tasks.asked_s() is not None:
            return  # who was asked to end may take its time, and does not go on
        self.fading = None
        if self._deaths_since(episode):
            self.left = episode
            self.explained = self.explained or (episode.said is not None and episode.said.explains_the_end)
            return
        self.wait_is_over(episode)

    def wait_is_over(self, episode: Episode) -> None:
        """It ended by itself: its verdict is history."""
        if episode.said is None:
            saved_sample.clear(self.folder.path)
            return
        self.folder.say(announcements.over(episode.said, episode.standing.waiters))
        self.totals.is_over(episode.said.cause)
        self.nodes.over(episode.said)
        self.said = None
        saved_sample.put_away(self.folder.path, episode.number)

    def _deaths_since(self, episode: Episode) -> bool:
        """Ranks ended during ``episode``, or who waited gave up with an exception in the thread that trains: it did not
        end by itself, the job did, and its verdict stands."""
        if any(ended_ns > episode.noticed_ns for ended_ns in self.ends()):
            return True
        raised_ns = exit_evidence.raised_ns(self.folder.path, episode.standing.waiters)
        return time.time_ns() - raised_ns < time.monotonic_ns() - episode.noticed_ns

    def _dying(self) -> bool:
        return time.monotonic_ns() - max(self.ends(), default=0) < 1e9 * CRASH_GRACE_S

    def ends(self) -> list[int]:
        """When ranks ended, those of other nodes as we heard of it."""
        own = [m.ended_ns for m in self.members.by_rank.values() if m.ended_ns is not None]
        return [*own, died_ns] if (died_ns := self.nodes.died_ns()) else own

    def _order(self, episode: Episode, standing: Standing) -> None:
        self.fading = None  # nothing was said of it: the new look takes the place of its evidence
        order = self.next_order(time.time() - standing.waited_s, with_stacks=episode.wants_stacks)
        if episode.said is not None:
            order = replace(order, noticed_after_s=episode.said.noticed_after_s)
        order = replace(order, stands_s=hang_policy.stands_s(self.plan, episode))
        episode.looked(standing)
        order = self.nodes.ask(order, standing)
        self.child = Child.start(order, self.folder, waited_s=standing.waited_s, width=self.plan.width)

    def begin(self, order: Order, *, pack_for: Path) -> None:
        """Begin such a look; it goes before any of our own."""
        if self.child is not None:
            self.child.end()
        self.child = Child.start(order, self.folder, waited_s=0.0, width=self.plan.width, pack_for=pack_for)

    def next_order(self, since_s: float | None, *, with_stacks: bool, live: bool = True) -> Order:
        """The next look at our own ranks."""
        self.looks += 1
        self.moving.stop_asking()
        return Order(
            number=self.looks,
            records=self.records,
            members={**self.members.by_rank, **self.absent.by_rank},
            world_size=self.members.world_size,
            job_outputs=self.job_outputs,
            stalled_since_s=since_s,
            with_stacks=with_stacks,
            live=live,
            memory=self.memory.lines(self.members.by_rank),
            kernel=self.memory.kernel_lines(self.members.by_rank),
            earlier=self.onlookers.earlier(),
            command=tuple(self.plan.command),
            cwd=self.plan.cwd,
            lang=self.plan.lang,
        )

    def take_answer(self) -> None:
        """What a look came to, if one has just ended."""
        if self.child is None or not self.child.over():
            return
        child, self.child = self.child, None
        self.totals.failed_looks += child.failed
        if self.nodes.took(child):
            return
        answer = child.answer()
        if self.moving.looked(child):
            self.moving.hear(answer)
            return
        if answer is None or self.episode is None:
            return
        if self.nodes.in_doubt():
            self.episode.looked_in_vain()
            return
        summary, text = answer
        self.episode.heard(summary, text)
        worth_saying = hang_policy.worth_saying(self.plan, summary, self.episode)
        ends = (worth_saying or self.episode.said is not None) and self._is_to_end(summary, self.episode)
        if worth_saying and not self.nodes.said_before(summary):
            self.say_of(self.episode, summary, text, ends=ends)
            if self.plan.on_hang_exec and summary.level == Level.STALL.value:
                ending.run_command(self.plan.on_hang_exec, self.folder, self.plan.cwd)
        if ends:
            self.nodes.say(summary, abort=True)
            self.end_job(summary)

    def _is_to_end(self, summary: Summary, episode: Episode) -> bool:
        """Whether the user wished for an end because of this, and the job is not ending anyway."""
        return hang_policy.to_be_ended(self.plan, summary, episode) and not self._being_ended and not self.tasks.over()

    def end_job(self, summary: Summary) -> None:
        """``--on-hang abort``: what was found stays as it is from now on."""
        self.folder.say(announcements.aborting(summary))
        self.moving.stop_asking()
        if self.child is not None:
            self.child.end()
            self.child = None
        state_at_verdict.lay_aside(self.folder.path)
        self.abort = ending.Abort(self.tasks.pids, self.records)

    def _quiet_line(self, episode: Episode, standing: Standing, work: Planned | None) -> None:
        if not episode.quiet_said and announcements.worth_a_line(standing) and episode.said is None:
            episode.quiet_said = True
            self.folder.say(announcements.waiting(standing, self.nodes.members(standing), episode.last, work))

    def _countdown(self, episode: Episode) -> None:
        if episode.said is not None:
            line = episode.countdown(time.time())
            if line:
                self.folder.say(line)


def main() -> int:
    """Watch the run whose folder is named; an exit code other than 0 asks for another try."""
    for number in signals.TAKEN - {signal.SIGPIPE, signal.SIGXFSZ, *signals.FAULTS}:
        signal.signal(number, lambda *_: None)  # a batch system signals all processes; the job decides when it ends
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with suppress(OSError):
        os.nice(NICE)
    folder = RunFolder(Path(sys.argv[1]), Path(sys.argv[2]))
    held = (watching(folder.records or folder.path), alive(folder.records or folder.path))
    if not held[0].take():
        return ANOTHER_WATCHES
    held[1].take(shared=True)
    try:
        Watcher(folder).run()
    except Exception:  # noqa: BLE001 - the process edge: the front process may try again
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
