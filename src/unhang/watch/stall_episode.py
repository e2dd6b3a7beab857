"""One wait of the job, from its first second to its end: when to sample again, what was said about it.

The functions at the end are what the user asked for with the options of ``unhang run``: when a wait is spoken of, and
when it ends the job.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.watch.job.wait_detection import (
    STARTUP_FACTOR,
    WORKING_LAGGARD_S,
    PlannedWait,
    RankSample,
    WaitSnapshot,
)
from unhang.watch.reporting import announcements
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary

RESAMPLE_FACTOR = 2.0
"""After a sample that settled nothing the next one comes when the wait has become so many times longer."""
MIN_SAMPLE_INTERVAL_S = 2.0
MAX_SAMPLE_INTERVAL_S = 60.0
NEAR_S, NEAR_SHARE = 10.5, 0.205
"""A little earlier than diagnosis.levels, which judges the sample that comes of it."""
STALL_SAMPLE_INTERVAL_S = 60.0
QUIET_LINE_AFTER_S = 6.0
QUIET_LINE_IN_INIT_AFTER_S = 10.0
"""Processes of one job may take that long to start one after the other."""
COUNTDOWN_S = (600.0, 300.0, 60.0, 30.0, 10.0)
SLOW_AFTER_S = 30.0
"""Without ``--slow-after``: so long a rank is borne that may come by itself: it works, or waits for something slow."""
SEEN_WAIT_FACTOR = 1.5
"""Than the longest step, and the longest such wait of this run that ended by itself."""
_numbers = itertools.count(1)


@dataclass(slots=True)
class StallEpisode:
    """``said``: the last verdict that was printed; ``last``: what the last sample came to, and ``text`` as people read
    it."""

    snapshot: WaitSnapshot
    number: int = field(default_factory=lambda: next(_numbers))
    said: VerdictSummary | None = None
    last: VerdictSummary | None = None
    text: str = ""
    is_quiet_line_printed: bool = False
    wants_stacks: bool = False
    noticed_ns: int = field(default_factory=time.monotonic_ns)
    planned_until_s: float = 0.0
    """So long of the wait was for work that its author marked."""
    longest_s: float = 0.0
    """So long the ranks of this job have waited before for one that worked, or a step of theirs has taken."""
    planned_time_exceeded: bool = False
    """The marked work takes longer than its author allowed."""
    _times_printed: int = 0
    _same_in_a_row: int = 0
    """So many samples in a row have come to what the last one came to."""
    _sampled_at_s: float = 0.0
    _samples_begun: int = 0
    _last_discarded: bool = False
    _said_of: tuple[int, ...] = ()
    _counted_s: float = float("inf")

    def is_ongoing(self, snapshot: WaitSnapshot | None, samples: Mapping[int, RankSample]) -> bool:
        """Whether this wait is not over: the rank that waited longest still waits, or cannot say that it does not."""
        first = self.snapshot.waiters[0]
        if snapshot is not None and first in snapshot.waiters:
            return True
        sample = samples.get(first)
        # Stopped with the whole job (Ctrl-Z), or starved: nothing of it has moved.
        return (
            sample is not None
            and sample.state not in ("", "Z", "X")
            and (sample.state == "T" or sample.view.age_s() > 1.0)
        )

    def is_same_wait(self, snapshot: WaitSnapshot, for_s: float) -> bool:
        """Whether ``snapshot`` is this wait, which seemed to be over ``for_s`` ago: others have waited since before,
        and for a rank that was waited for. One rank may seem to go on for a moment, and of other nodes we hear late."""
        late = set(self.snapshot.laggards)
        shared = late & set(snapshot.laggards) if late else not snapshot.laggards
        return snapshot.waited_s > for_s and bool(shared)

    def note_work(self, work: PlannedWait | None, snapshot: WaitSnapshot) -> None:
        """What the laggards marked, at this moment."""
        self.planned_time_exceeded = work is not None and work.over
        if work is not None and not work.over:
            self.planned_until_s = snapshot.waited_s

    @property
    def unplanned_s(self) -> float:
        """How long they have waited for what nobody marked."""
        return self.snapshot.waited_s - self.planned_until_s

    @property
    def sampled_s(self) -> float:
        """The same when the last sample began."""
        return self._sampled_at_s - self.planned_until_s

    def is_sample_due(self, snapshot: WaitSnapshot, patience_s: tuple[float, ...] = ()) -> bool:
        """Whether it is time to sample (again). ``patience_s``: how long a wait for what nobody marked is borne; then a
        new verdict is wanted."""
        if self._samples_begun == 0 or self._last_discarded:
            return True
        if self._may_have_worsened(snapshot) or any(
            self.sampled_s < mark_s <= self.unplanned_s for mark_s in patience_s
        ):
            return True
        since_look_s = snapshot.waited_s - self._sampled_at_s
        if self.wants_stacks and self._samples_begun == 1:
            return True
        if self.changed and not self.steady:
            return since_look_s >= MIN_SAMPLE_INTERVAL_S
        if self.said is not None and self.said.level == VerdictLevel.STALL.value:
            return since_look_s >= STALL_SAMPLE_INTERVAL_S
        if self.last is not None and self.last.level == VerdictLevel.WAITING.value and self._samples_begun < 4:
            return since_look_s >= MIN_SAMPLE_INTERVAL_S / 2
        wait_s = max(MIN_SAMPLE_INTERVAL_S, (RESAMPLE_FACTOR - 1) * self._sampled_at_s)
        return since_look_s >= min(wait_s, MAX_SAMPLE_INTERVAL_S)

    def _may_have_worsened(self, snapshot: WaitSnapshot) -> bool:
        """Since the last sample the verdict may have changed for the worse: marked work has become too long, or has
        ended and is still waited for; or the job's own limit has come near."""
        looked_at_s = self._sampled_at_s
        if looked_at_s <= self.planned_until_s and (
            self.planned_time_exceeded or self.unplanned_s >= WORKING_LAGGARD_S
        ):
            return True
        limit_at_s = self.last.limit_at_s if self.last is not None else None
        if limit_at_s is None:
            return False
        left_s = limit_at_s - time.time()
        near_at_s = snapshot.waited_s + left_s - max(NEAR_S, NEAR_SHARE * (left_s + snapshot.waited_s))
        return looked_at_s < near_at_s <= snapshot.waited_s

    @property
    def was_sampled(self) -> bool:
        """A sample began, and may have left something in the run folder."""
        return self._samples_begun > 0

    def mark_sampled(self, snapshot: WaitSnapshot) -> None:
        """A sample begins."""
        self._last_discarded = False
        self._samples_begun += 1
        self._sampled_at_s = snapshot.waited_s

    def discard_last_sample(self) -> None:
        """What the sample found may be wrong by now: the next one comes as soon as it can."""
        self._last_discarded = True

    @property
    def changed(self) -> bool:
        """The last sample came to something else than what was printed."""
        return self.last is not None and self.said is not None and self.last.changes(self.said)

    @property
    def steady(self) -> bool:
        """The last samples came to the same: one more than verdicts were printed, so that none swings to and fro."""
        return self._same_in_a_row > self._times_printed

    def is_quiet_line_due(self) -> bool:
        """They have waited long enough for the quiet line, which is said once."""
        after_s = QUIET_LINE_IN_INIT_AFTER_S if self.snapshot.in_init else QUIET_LINE_AFTER_S
        due = self.snapshot.due and self.snapshot.waited_s >= after_s
        return due and not self.is_quiet_line_printed and self.said is None

    def heard(self, summary: VerdictSummary, text: str = "") -> None:
        """A sample came to ``summary``."""
        alike = self.last is not None and not summary.changes(self.last)
        self._same_in_a_row = self._same_in_a_row + 1 if alike else 1
        self.last, self.text = summary, text
        # Only where nothing moves, and looking from outside left doubt.
        doubt = summary.level == VerdictLevel.STALL.value and not (summary.settled or summary.moving)
        self.wants_stacks = summary.needs_lines or doubt

    @property
    def said_of_same(self) -> VerdictSummary | None:
        """What was printed, where the same ranks are still waited for."""
        return self.said if self.snapshot.laggards == self._said_of else None

    def say(self, summary: VerdictSummary) -> None:
        """Note that the verdict was printed."""
        self.said, self._said_of = summary, self.snapshot.laggards
        self._times_printed += 1
        if summary.limit_at_s is not None:
            self._counted_s = summary.limit_at_s - time.time()

    def countdown(self, now_s: float) -> str:
        """A line when the end of the job's own limit comes near; else nothing."""
        if self.said is None or self.said.limit_at_s is None:
            return ""
        left_s = self.said.limit_at_s - now_s
        passed = [mark for mark in COUNTDOWN_S if left_s <= mark < self._counted_s]
        self._counted_s = min(self._counted_s, left_s)
        if not passed or left_s <= 0:
            return ""
        return announcements.countdown(left_s, self.said.gives_up)


def patience_limits_s(plan: RunPlan, episode: StallEpisode) -> tuple[float, ...]:
    """After so long a wait for a rank that stands is spoken of, for one that works, and is ended."""
    bound_s = plan.abort_slow_after_s
    marks = (borne_s(plan, episode), _borne_while_working_s(plan, episode))
    return (*marks, bound_s) if plan.on_hang == "abort" and bound_s is not None else marks


def borne_s(plan: RunPlan, episode: StallEpisode) -> float:
    """So long a wait is borne for a rank that may wait for something slow, but uses neither the processor nor files."""
    return max(plan.slow_after_s or SLOW_AFTER_S, SEEN_WAIT_FACTOR * episode.longest_s)


def _borne_while_working_s(plan: RunPlan, episode: StallEpisode) -> float:
    """The same for one that works, which at the start of a job may take much longer."""
    at_the_start_s = 0.0 if episode.snapshot.rhythm else STARTUP_FACTOR * (plan.slow_after_s or SLOW_AFTER_S)
    return max(at_the_start_s, borne_s(plan, episode))


def should_report(plan: RunPlan, summary: VerdictSummary, episode: StallEpisode) -> bool:
    """Whether a verdict on ``episode`` is printed: once, again where it has changed for good, and not while there is
    patience."""
    loud = summary.level in (VerdictLevel.STALL.value, VerdictLevel.SLOW.value)
    if episode.said is not None:
        return loud and episode.changed and episode.steady
    bound_s = plan.abort_slow_after_s if plan.on_hang == "abort" else None
    patient_s = min(_borne_while_working_s(plan, episode), float("inf") if bound_s is None else bound_s)
    patient = not episode.planned_time_exceeded and episode.sampled_s < patient_s
    return loud and not (summary.level == VerdictLevel.SLOW.value and patient)


def should_abort(plan: RunPlan, summary: VerdictSummary, episode: StallEpisode) -> bool:
    """Whether ``--on-hang abort`` ends the job because of this."""
    if plan.on_hang != "abort":
        return False
    bound_s = plan.abort_slow_after_s
    frozen = summary.level == VerdictLevel.STALL.value and not summary.moving
    return frozen or (bound_s is not None and episode.unplanned_s >= bound_s)
