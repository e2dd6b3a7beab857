"""Grow a job until something gives way: one size after another, each judged against the one before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unhang.sentences import Text, say
from unhang.watch.launch.dry_run import cleaned_up
from unhang_ramp.sizes import Growth, check_placeholders, command_for_size, ramp_sizes
from unhang_ramp.trial import CRASH, GOOD, LIMIT, MEMORY, STALL, RampTrial, TrialLimits, run_trial

MAX_STEP_GROWTH, MIN_STEP_GROWTH_S = 1.5, 0.05
"""A step may take so much longer than its size explains, and at least so many seconds, before that counts."""
MAX_STEP_SPREAD, MIN_STEP_SPREAD_S = 3.0, 0.2
MIN_FREE_SHARE = 0.05
"""Of the memory: with less left, the next peak ends the job."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """Every size that was tried, in order. ``gave_way``: why the last one is not good; None where all were."""

    trials: tuple[RampTrial, ...]
    stop_reason: Text | None = None
    kind: str = ""
    """``stall``, ``crash``, ``memory``, ``limit``, ``no-steps``, ``step-time``, ``spread`` or ``headroom``."""

    @property
    def good(self) -> RampTrial | None:
        """The largest size that is good."""
        found = self.trials[:-1] if self.stop_reason is not None else self.trials
        return found[-1] if found else None


def ramp(
    command: Sequence[str],
    growths: Sequence[Growth],
    *,
    bounds: TrialLimits | None = None,
    keep: Path | None = None,
    tell: Callable[[RampTrial], None] = lambda _: None,
) -> Ramp:
    """Run ``command`` at growing sizes; stops at the first that is not good. ``tell`` hears of each.

    ``keep``: a folder for the run folders of all sizes; without one nothing is left.

    Raises:
        UsageError: the command and what grows do not fit, or the command cannot be started.
    """
    check_placeholders(command, growths)
    trials: list[RampTrial] = []
    for number, (grown, values) in enumerate(ramp_sizes(growths), 1):
        trials.append(try_values(command, growths, values, bounds, None if keep is None else keep / f"{number:02d}"))
        tell(trials[-1])
        kind, because = judge_size(trials[-1], trials[-2] if grown is not None else None, grown)
        if because is not None:
            return Ramp(tuple(trials), because, kind)
    return Ramp(tuple(trials))


def try_values(
    command: Sequence[str],
    growths: Sequence[Growth],
    values: Mapping[str, str],
    bounds: TrialLimits | None,
    keep: Path | None,
) -> RampTrial:
    """Run ``command`` with these values. ``keep``: its run folder, by a name to which they are added."""
    folder = Path(tempfile.mkdtemp(prefix="unhang-ramp-"))
    kept = keep and keep.with_name(f"{keep.name}-{'-'.join(f'{n}={v}' for n, v in values.items())}")
    with cleaned_up(folder):
        words = command_for_size(command, growths, values, folder)
        return run_trial(words, values, folder, kept, bounds or TrialLimits())


def judge_size(now: RampTrial, before: RampTrial | None, grown: Growth | None) -> tuple[str, Text | None]:
    """What gave way at this size, as a word and a sentence; ("", None) where it is good."""
    if now.outcome != GOOD:
        return now.outcome, _failed(now)
    for free, size, what in (
        (now.memory_free, now.memory_limit, say("machine's memory")),
        (now.card_free, now.card_size, say("GPU memory")),
    ):
        if free is not None and size and free < MIN_FREE_SHARE * size:
            share = round(100 * free / size, 1)
            return "headroom", say("only {share} % of the {what} is left", share=share, what=what)
    typical, longest = now.typical_s, max(now.step_s, default=0.0)
    if typical and longest > MAX_STEP_SPREAD * typical and longest - typical > MIN_STEP_SPREAD_S:
        return "spread", say(
            "steps are uneven: the longest took {longest:.2f} s, half of them less than {typical:.2f} s",
            longest=longest,
            typical=typical,
        )
    return _longer(now, before, grown)


def _longer(now: RampTrial, before: RampTrial | None, grown: Growth | None) -> tuple[str, Text | None]:
    if before is None or grown is None or not before.typical_s or not now.typical_s:
        return "", None
    factor = grown.expected(before.values[grown.name], now.values[grown.name])
    if factor is None:
        return "", None
    expected = before.typical_s * factor
    if now.typical_s <= expected * MAX_STEP_GROWTH or now.typical_s - expected <= MIN_STEP_GROWTH_S:
        return "", None
    return "step-time", say(
        "a step takes {now:.2f} s; its size explains only {expected:.2f} s", now=now.typical_s, expected=expected
    )


def _failed(now: RampTrial) -> Text:
    said = now.sentence or (now.last_words[-1] if now.last_words else "")
    if now.outcome == STALL:
        return say("the ranks wait for each other: {said}", said=said)
    if now.outcome == MEMORY:
        return say("out of memory: {said}", said=said)
    if now.outcome == LIMIT:
        return say("the steps did not finish in {seconds:.0f} s", seconds=now.seconds)
    if now.outcome == CRASH:
        return say("the command ended with {code}: {said}", code=now.code, said=said)
    return say(
        "the command ended before its steps were done; no optimizer step was seen after step {steps}",
        steps=len(now.step_s),
    )
