"""What the user asked for with the options of ``unhang run``: when a wait is spoken of, and when it ends the job."""

from __future__ import annotations

from unhang.watch.episode import Episode
from unhang.watch.run_folder import RunPlan
from unhang.watch.summary import Level, Summary

BEFORE_STEPS = 4
"""Before the first steps a wait is borne so many times longer."""


def patience_s(plan: RunPlan, episode: Episode) -> tuple[float, ...]:
    """After so long a wait for a rank that works is spoken of, and after so long it is ended."""
    spoken_s = plan.slow_after_s * (1 if episode.standing.rhythm else BEFORE_STEPS)
    bound_s = plan.abort_slow_after_s
    return (spoken_s, bound_s) if plan.on_hang == "abort" and bound_s is not None else (spoken_s,)


def worth_saying(plan: RunPlan, summary: Summary, episode: Episode) -> bool:
    """Whether a verdict on ``episode`` is printed: once, again where it has changed for good, and not while there is
    patience."""
    loud = summary.level in (Level.STALL.value, Level.SLOW.value)
    if episode.said is not None:
        return loud and episode.changed and episode.steady
    patient = not episode.overlong and episode.unplanned_s < min(patience_s(plan, episode))
    return loud and not (summary.level == Level.SLOW.value and patient)


def to_be_ended(plan: RunPlan, summary: Summary, episode: Episode) -> bool:
    """Whether ``--on-hang abort`` ends the job because of this."""
    if plan.on_hang != "abort":
        return False
    bound_s = plan.abort_slow_after_s
    frozen = summary.level == Level.STALL.value and not summary.moving
    return frozen or (bound_s is not None and episode.unplanned_s >= bound_s)
