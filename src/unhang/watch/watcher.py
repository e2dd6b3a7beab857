"""The watcher: reads the ranks' records a few times a second and sees to it that a stall is looked into.

``python -m unhang.watch.watcher RUN_FOLDER``. Started by the front process, in a session of its own, with a low
priority. It touches the job only through the control file; looking and judging happen in short-lived children.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from unhang.records.birth import read_troubles
from unhang.watch import announcing, earlier_evidence, ending, remark, signals
from unhang.watch.absent import Absent
from unhang.watch.child import Child
from unhang.watch.collecting import Order
from unhang.watch.control_file import open_control
from unhang.watch.detection import Detector, RankLook, Standing
from unhang.watch.drift import DriftWatch
from unhang.watch.episode import Episode
from unhang.watch.meeting import alive, clear, watching
from unhang.watch.members import Members, outputs_of
from unhang.watch.memory import MemoryWatch
from unhang.watch.rhythm import RhythmSearch
from unhang.watch.run_folder import RunFolder, RunPlan
from unhang.watch.straggling import StragglerWatch
from unhang.watch.summary import Level, Summary
from unhang.watch.tasks import Tasks
from unhang.watch.totals import Totals
from unhang.watch.watcher_process import ANOTHER_WATCHES

TICK_S = 0.25
NICE = 5
CRASH_GRACE_S = 1.2
"""A launcher ends the other ranks within moments after one died; before that there is no stall."""
LONG_STEP_S = 5.0
STRAGGLER_LOOKS = 4
OF_ONE_LOOK = ("verdict.json", "report.html", "bundle.json", "dumps", "stacks", "source", "machine")
FADING_S = 3.0
"""A wait that ends because ranks are being ended looks at first as if it ended by itself."""
ENDED_LIMIT_S = 2.0
"""The front process writes down how the command ended a moment after it did."""


class Watcher:
    """One run, from its first rank to its last."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.plan: RunPlan = folder.read_plan()
        announcing.speak(self.plan.lang)
        self.records = Path(self.plan.records)
        self.members = Members(self.records)
        self.absent = Absent()
        self.detector = Detector()
        self.totals = Totals()
        self.rhythm = RhythmSearch(self.records, folder.path / "dumps")
        self.episode: Episode | None = None
        self.child: Child | None = None
        self.looks = 0
        self.deaths = 0
        self.stragglers = StragglerWatch()
        self.memory = MemoryWatch()
        self.drift = DriftWatch(self.records, folder.path)
        self.remark_looks: set[int] = set()
        """Looks at a job that moves; the others are looks at a wait."""
        self.slow_said: set[tuple[object, ...]] = set()
        self.explained = False
        self.fading: Episode | None = None
        self.faded_at = 0.0
        self.left: Episode | None = None
        self.loaded = False
        self.abort: ending.Abort | None = None
        self.tasks = Tasks(self.records)
        self.job_outputs = outputs_of(self.plan.job_pid)
        earlier_evidence.restore(folder.path)
        control = open_control(self.records)
        if control is not None:
            control.now.watcher_pid = os.getpid()
            control.publish()
            control.close()

    def run(self) -> None:
        """Watch until the command has ended, then say the last words."""
        while not self._job_over():
            self.members.wait(TICK_S, self.tasks.waited_on)
            self._note_deaths()
            self.tick()
        self.close()

    def tick(self) -> None:
        """One look at every record, and whatever follows from it."""
        self.members.refresh()
        now_ns = time.monotonic_ns()
        looks = self.members.looks()
        if looks and not self.loaded:
            self.loaded = True
            import unhang.watch.verdicts  # noqa: F401 - takes a second: now, not when a stall has to be looked into
        self.memory.note(self.members.by_rank)
        self.totals.add(looks)
        self.absent.refresh(self.members)
        standing = self.detector.observe(now_ns, {**looks, **self.absent.looks()})
        self._note_deaths()
        self._take_answer()
        self._follow(standing, looks)
        self._follow_straggler(looks)
        if self.episode is None and self.child is None:
            self._follow_drift()
        ending.reap()
        if self.abort is not None:
            self.abort.go_on()

    def _note_deaths(self) -> None:
        """A rank died: the others' dumps are wanted before the launcher ends them too."""
        if self.members.deaths == self.deaths:
            return
        self.deaths = self.members.deaths
        self._stop_asking()
        control = open_control(self.records)
        if control is not None:
            control.ask_dump()
            control.close()

    def _follow(self, standing: Standing | None, looks: Mapping[int, RankLook]) -> None:
        episode = self.episode
        if episode is not None and not episode.goes_on(standing, looks):
            self.episode = None
            if self.child is not None and self.child.number not in self.remark_looks:
                self.child.end()
                self.child = None
            if episode.was_looked_at:
                self.fading, self.faded_at = episode, time.monotonic() + FADING_S
        self._fade()
        if standing is None:
            return
        if self.episode is None and standing.waited_s >= 0.5:
            self.episode = Episode(standing)
        if self.episode is None or self._dying():
            return
        self.episode.standing = standing
        self._quiet_line(self.episode, standing)
        self._countdown(self.episode)
        if self.child is None and standing.due and self.episode.look_due(standing) and not self._verdict_fades():
            self._order(self.episode, standing)

    def _follow_straggler(self, looks: Mapping[int, RankLook]) -> None:
        """A job that moves at the pace of one rank: look at it a few times in a row, now and then."""
        waits = self.episode is not None and self.episode.standing.waited_s > LONG_STEP_S
        slow = None if waits or self.fading is not None else self.stragglers.add(looks)
        if slow is None or self.child is not None:
            return
        self._look_for_remark(looks=STRAGGLER_LOOKS, earlier_dumps=True)

    def _follow_drift(self) -> None:
        """What the ranks of a moving job called is compared rarely; calls that differ are looked at once."""
        if any(member.ended_ns is not None for member in self.members.by_rank.values()):
            return  # the dumps the others make now are wanted
        most = max((g.completed for m in self.members.by_rank.values() for g in m.view.groups), default=0)
        if self.drift.pid is None:
            self.rhythm.go_on(most)
        if self.rhythm.pid is None and self.fading is None:
            compared = self.drift.go_on(most)
            if compared is not None:
                self._look_for_remark(compared=compared)

    def _look_for_remark(self, **how: Any) -> None:
        self._stop_asking()
        self.looks += 1
        self.remark_looks.add(self.looks)
        order = replace(self._new_order(None, with_stacks=False), pace=self.stragglers.record.document(), **how)
        self.child = Child.start(order, self.folder, waited_s=0.0, width=self.plan.width)

    def _stop_asking(self) -> None:
        """A look is about to begin, and asks for dumps itself."""
        self.rhythm.end()
        self.drift.end()

    def _hear_remark(self, answer: tuple[Summary, str] | None) -> None:
        if answer is not None and answer[0].level == Level.SLOW.value:
            remark.keep(self.folder.path, OF_ONE_LOOK)
            if answer[0].same_as not in self.slow_said:
                self.slow_said.add(answer[0].same_as)
                self.folder.say(announcing.verdict(*answer, self.folder.path))
                self.totals.findings.append(answer[0].cause)
            return
        if "collective-mismatch" not in self.totals.findings:
            self.drift.try_again()
        if self.episode is None:
            self._clear()

    def _verdict_fades(self) -> bool:
        """A wait that was spoken of has just ended, perhaps with its job: nothing takes the place of its evidence."""
        return self.fading is not None and self.fading.said is not None

    def _fade(self) -> None:
        """A wait ended some time ago: by itself, or because its job came to an end."""
        episode = self.fading
        if episode is None or time.monotonic() <= self.faded_at:
            return
        self.fading = None
        if self._deaths_since(episode):
            self.left = episode
            self.explained = self.explained or (episode.said is not None and not episode.said.laggard_works)
            return
        if episode.said is not None:
            self.folder.say(announcing.over(episode.said))
        self._put_away(episode)

    def _deaths_since(self, episode: Episode) -> bool:
        """Ranks ended during ``episode``: it did not end by itself, the job did, and its verdict stands."""
        ends = [m.ended_ns for m in self.members.by_rank.values() if m.ended_ns is not None]
        return any(ended_ns > episode.noticed_ns for ended_ns in ends)

    def _dying(self) -> bool:
        ends = [m.ended_ns for m in self.members.by_rank.values() if m.ended_ns is not None]
        return bool(ends) and time.monotonic_ns() - max(ends) < 1e9 * CRASH_GRACE_S

    def _order(self, episode: Episode, standing: Standing) -> None:
        self.looks += 1
        self._stop_asking()
        self.fading = None  # nothing was said of it: the new look takes the place of its evidence
        order = self._new_order(time.time() - standing.waited_s, with_stacks=episode.wants_stacks)
        if episode.said is not None:
            order = replace(order, noticed_after_s=episode.said.noticed_after_s)
        episode.looked(standing)
        self.child = Child.start(order, self.folder, waited_s=standing.waited_s, width=self.plan.width)

    def _new_order(self, since_s: float | None, *, with_stacks: bool, live: bool = True) -> Order:
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
            lang=self.plan.lang,
        )

    def _take_answer(self) -> None:
        if self.child is None or not self.child.over():
            return
        child, self.child = self.child, None
        answer = child.answer()
        if child.number in self.remark_looks:
            self._hear_remark(answer)
            return
        if answer is None or self.episode is None:
            return
        summary, text = answer
        self.episode.heard(summary)
        if self._worth_saying(summary, self.episode):
            self.folder.say(announcing.verdict(summary, text, self.folder.path))
            self.episode.say(summary)
            self.totals.findings.append(summary.cause)
            self._act(summary)
        elif self.episode.said is not None and self.plan.on_hang == "abort":
            self._act(summary)

    def _worth_saying(self, summary: Summary, episode: Episode) -> bool:
        if episode.said is not None and summary.same_as == episode.said.same_as:
            return False
        if summary.level == Level.STALL.value:
            return True
        waited_s = episode.standing.waited_s
        patience_s = self.plan.slow_after_s * (1 if episode.standing.rhythm else 4)
        return summary.level == Level.SLOW.value and waited_s >= patience_s and episode.said is None

    def _act(self, summary: Summary) -> None:
        if self.plan.on_hang_exec and summary.level == Level.STALL.value:
            ending.run_command(self.plan.on_hang_exec, self.folder)
        if self.plan.on_hang != "abort" or self.abort is not None or self.episode is None:
            return
        bound_s = self.plan.abort_slow_after_s
        frozen = summary.level == Level.STALL.value and not summary.moving
        if frozen or (bound_s is not None and self.episode.standing.waited_s >= bound_s):
            self.folder.say(announcing.aborting(summary))
            self.abort = ending.Abort(self.tasks.pids, self.records)

    def _quiet_line(self, episode: Episode, standing: Standing) -> None:
        if not episode.quiet_said and announcing.worth_a_line(standing) and episode.said is None:
            episode.quiet_said = True
            self.folder.say(announcing.waiting(standing, self.members, episode.last))

    def _countdown(self, episode: Episode) -> None:
        if episode.said is not None:
            line = episode.countdown(time.time())
            if line:
                self.folder.say(line)

    def _put_away(self, episode: Episode) -> None:
        """The verdict on a wait that is over is history, and its evidence must not pass for that of a later one."""
        if episode.said is None:
            self._clear()
            return
        past = self.folder.path / ".unhang" / "past" / str(episode.number)
        with suppress(OSError):
            past.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in OF_ONE_LOOK:
            with suppress(OSError):
                (self.folder.path / name).rename(past / name)
        with suppress(OSError):
            (self.folder.path / "dumps").mkdir(mode=0o700, exist_ok=True)
        remark.bring_back(self.folder.path)

    def _clear(self) -> None:
        """Nothing came of the last look."""
        for name in OF_ONE_LOOK:
            with suppress(OSError):
                (self.folder.path / name).unlink()
            shutil.rmtree(self.folder.path / name, ignore_errors=True)
        with suppress(OSError):
            (self.folder.path / "dumps").mkdir(mode=0o700, exist_ok=True)
        remark.bring_back(self.folder.path)

    def _job_over(self) -> bool:
        return self.tasks.over()

    def close(self) -> None:
        """The command has ended: look into a bad end, say the last two lines, leave."""
        self.members.refresh()
        self.members.wait(0)
        self._stop_asking()
        if self.child is not None:
            self.child.wait()
            self._take_answer()
        if self.abort is not None:
            self.abort.finish()
        failed = self._failed()
        waits = [wait for wait in (self.episode, self.fading, self.left) if wait is not None]
        last = next((wait for wait in waits if wait.said is not None), waits[0] if waits else None)
        explained = self.explained or (last is not None and last.said is not None)
        if last is not None and last.said is not None and last.said.laggard_works:
            explained = False  # it ran into its limit meanwhile: the logs tell
        if failed and self.members.by_rank and not explained:
            self._last_look()
        elif last is not None and last.said is None and self._ended_well():
            self._put_away(last)
        elif last is not None and last.said is None and last.last is not None and last.last.cause:
            self.totals.findings.append(last.last.cause)  # ended from outside before it was sure enough to be said
        for line in announcing.troubles(read_troubles(self.records), self.members):
            self.folder.say(line)
        self.folder.say(announcing.last_words(self.totals, self.members, self.folder.path))
        if self.tasks.fronts_gone():
            clear(self.records)

    def _failed(self) -> bool:
        """The command ended badly, and nobody had asked it to end."""
        deadline = time.monotonic() + ENDED_LIMIT_S
        while not self.tasks.told() and time.monotonic() < deadline:
            time.sleep(0.02)
        failed = self.tasks.failed()
        if failed is None:
            return any(member.exit_code not in (0, None) for member in self.members.by_rank.values())
        return failed

    def _ended_well(self) -> bool:
        return self.tasks.ended_well()

    def _last_look(self) -> None:
        self.looks += 1
        order = self._new_order(None, with_stacks=False, live=False)
        child = Child.start(order, self.folder, waited_s=0.0, width=self.plan.width)
        child.wait()
        answer = child.answer()
        if answer is not None and answer[0].level == Level.CRASH.value:
            self.folder.say(announcing.verdict(answer[0], answer[1], self.folder.path))
            self.totals.findings.append(answer[0].cause)


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
