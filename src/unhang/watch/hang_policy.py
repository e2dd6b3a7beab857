"""What the user asked for with the options of ``unhang run``: when a wait is spoken of, and when it ends the job."""

from __future__ import annotations

from unhang.watch.reporting.verdict_summary import VerdictLevel, VerdictSummary
from unhang.watch.run_folder import RunPlan
from unhang.watch.stall_episode import StallEpisode

SLOW_AFTER_S, CLEAR_AFTER_S = 30.0, 7.0
"""Without ``--slow-after``: so long work of one rank is borne; the second where it is clearly no usual pause."""
SEEN_WAIT_FACTOR = 1.5
"""Than the longest such wait of this run that ended by itself."""
IDLE_FACTOR = 3.0
"""What has not moved for so many times the longest step, or such a wait, does not go on by itself."""
STARTUP_FACTOR = 4
"""Before the first steps a wait is borne so many times longer."""


def patience_limits_s(plan: RunPlan, episode: StallEpisode) -> tuple[float, ...]:
    """After so long a wait for a rank that works is spoken of, is no work where nothing moves, and is ended."""
    bound_s = plan.abort_slow_after_s
    marks = (_report_after_s(plan, episode), idle_limit_s(plan, episode))
    return (*marks, bound_s) if plan.on_hang == "abort" and bound_s is not None else marks


def _report_after_s(plan: RunPlan, episode: StallEpisode) -> float:
    usual_s = plan.slow_after_s
    if usual_s is None:
        usual_s = CLEAR_AFTER_S if _is_clear(episode) else SLOW_AFTER_S
    before_steps = 1 if episode.snapshot.rhythm else STARTUP_FACTOR
    return max(usual_s * before_steps, SEEN_WAIT_FACTOR * episode.longest_s)


def _is_clear(episode: StallEpisode) -> bool:
    last = episode.last
    if last is None or not last.laggard_works or episode.is_usual_pause:
        return False
    return last.certainty != "possible" and bool(last.where)


def idle_limit_s(plan: RunPlan, episode: StallEpisode) -> float:
    """After so long without any movement, the processor and files unused, a rank does not work."""
    usual_s = SLOW_AFTER_S if plan.slow_after_s is None else plan.slow_after_s
    before_steps = 1 if episode.snapshot.rhythm else STARTUP_FACTOR
    return max(usual_s * before_steps, IDLE_FACTOR * episode.longest_s)


def should_report(plan: RunPlan, summary: VerdictSummary, episode: StallEpisode) -> bool:
    """Whether a verdict on ``episode`` is printed: once, again where it has changed for good, and not while there is
    patience."""
    loud = summary.level in (VerdictLevel.STALL.value, VerdictLevel.SLOW.value)
    if episode.said is not None:
        return loud and episode.changed and episode.steady
    bound_s = plan.abort_slow_after_s if plan.on_hang == "abort" else None
    patient_s = min(_report_after_s(plan, episode), float("inf") if bound_s is None else bound_s)
    patient = not episode.planned_time_exceeded and episode.unplanned_s < patient_s
    return loud and not (summary.level == VerdictLevel.SLOW.value and patient)


def should_abort(plan: RunPlan, summary: VerdictSummary, episode: StallEpisode) -> bool:
    """Whether ``--on-hang abort`` ends the job because of this."""
    if plan.on_hang != "abort":
        return False
    bound_s = plan.abort_slow_after_s
    frozen = summary.level == VerdictLevel.STALL.value and not summary.moving
    return frozen or (bound_s is not None and episode.unplanned_s >= bound_s)
