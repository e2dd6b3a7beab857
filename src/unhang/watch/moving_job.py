"""A job that moves: who slows it down, whether its ranks call the same, how many collectives a step has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unhang.watch import saved_sample
from unhang.watch.job.detection import RankLook
from unhang.watch.pace.call_digests import Print
from unhang.watch.pace.call_drift import DriftWatch
from unhang.watch.pace.pace_over_nodes import Slowest
from unhang.watch.pace.step_rhythm import RhythmSearch
from unhang.watch.pace.straggling import StragglerWatch
from unhang.watch.reporting import saved_remark
from unhang.watch.reporting.verdict_summary import Level, Summary
from unhang.watch.verdict.diagnosis_child import Child
from unhang.watch.verdict.evidence_request import BETWEEN_LOOKS_S, Order

if TYPE_CHECKING:
    from unhang.watch.watcher import Watcher

LONG_STEP_S = 5.0
STRAGGLER_LOOKS = 4
MOST_APART_S = 5.0


class MovingJob:
    """Beside one watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.stragglers = StragglerWatch()
        self._rhythm = RhythmSearch(watcher.records, watcher.folder.path / "dumps")
        self.drift = DriftWatch(watcher.records, watcher.folder.path)
        self._looks: set[int] = set()
        """Numbers of looks at a job that moves; the others are looks at a wait."""
        self._said: set[tuple[object, ...]] = set()

    @property
    def prints(self) -> list[Print]:
        """What our ranks called, for other nodes."""
        return self.drift.prints

    def looked(self, child: Child) -> bool:
        """Whether ``child`` is a look of ours."""
        return child.number in self._looks

    def go_on(self, looks: Mapping[int, RankLook]) -> None:
        """Called at every look at all ranks."""
        watcher = self._watcher
        self._follow_straggler(looks)
        if watcher.episode is None and watcher.child is None:
            self._follow_drift()
        elif watcher.child is None and watcher.episode is not None and watcher.episode.standing.waited_s <= LONG_STEP_S:
            self._learn_rhythm()  # of a job that only gets on slowly

    def stop_asking(self) -> None:
        """A look is about to begin, and asks for dumps itself."""
        self._rhythm.end()
        self.drift.end()

    def at_its_pace(self, order: Order, looks: int) -> Order:
        """``order`` as a look at a job that moves at the pace of a rank."""
        pace = self.stragglers.record.document()
        return replace(order, looks=looks, earlier_dumps=looks > 2, pace=pace, apart_s=self._apart_s(looks))

    def hear(self, answer: tuple[Summary, str] | None) -> None:
        """What a look of ours came to."""
        watcher = self._watcher
        if answer is not None and answer[0].level == Level.SLOW.value:
            saved_remark.keep(watcher.folder.path, saved_sample.PARTS)
            if answer[0].same_as not in self._said:
                self._said.add(answer[0].same_as)
                watcher.say_verdict(*answer)
                watcher.totals.findings.append(answer[0].cause)
            return
        if "collective-mismatch" not in watcher.totals.findings:
            self.drift.try_again()
        if watcher.episode is None:
            saved_sample.clear(watcher.folder.path)

    def _follow_straggler(self, looks: Mapping[int, RankLook]) -> None:
        """A job that moves at the pace of one rank: look at it a few times in a row, now and then."""
        watcher = self._watcher
        waits = watcher.episode is not None and watcher.episode.standing.waited_s > LONG_STEP_S
        slow = None if waits or watcher.fading is not None else watcher.nodes.slowest(looks)
        if slow is None or watcher.child is not None:
            return
        self._look(slow)

    def _follow_drift(self) -> None:
        """What the ranks of a moving job called is compared rarely; calls that differ are looked at once."""
        if self._watcher.ends():
            return  # the dumps the others make now are wanted
        most = self._learn_rhythm()
        if self._rhythm.pid is None and self._watcher.fading is None:
            compared = self.drift.go_on(most)
            if compared is not None:
                self._look(None, compared=compared)
            elif nodes := self._watcher.nodes.that_call_otherwise(self.drift.checks):
                self._look(None, between=nodes)

    def _learn_rhythm(self) -> int:
        """How many collectives have been completed, and how many a step has."""
        members = self._watcher.members.by_rank.values()
        most = max((g.completed for m in members for g in m.view.groups), default=0)
        counted = any(m.view.step_source == "guards" for m in members)
        if self.drift.pid is None and not counted:
            self._rhythm.go_on(most)
        return most

    def _look(self, slow: Slowest | None, *, compared: bytes = b"", between: Sequence[int] = ()) -> None:
        watcher = self._watcher
        order = watcher.next_order(None, with_stacks=False)
        self._looks.add(order.number)
        order = self.at_its_pace(order, STRAGGLER_LOOKS if slow is not None else 2)
        order = watcher.nodes.ask_pace(order, slow) if slow is not None else replace(order, compared=compared)
        order = watcher.nodes.ask_calls(order, list(between)) if between else order
        watcher.child = Child.start(order, watcher.folder, waited_s=0.0, width=watcher.plan.width)

    def _apart_s(self, looks: int) -> float:
        """Looks at a job that moves span more than a step: within one, every wait looks like a stall."""
        members = self._watcher.members.by_rank.values()
        step_s = max((m.view.step_mean_ns for m in members), default=0.0) / 1e9
        return max(BETWEEN_LOOKS_S, min(MOST_APART_S, 1.3 * step_s / max(1, looks - 1)))
