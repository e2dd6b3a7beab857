"""The search for the smallest workaround: trials one after another until what is needed is known.

Singles first, then all together, cut down. Nothing is known about how settings act together: one may need another, or
undo it. Whatever is given back was seen to work, and nothing can be left out of it without it failing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from unhang.check.probe_results.probe_results import ProbeAnswer, ProbeResult
from unhang.check.probe_results.speeds import fastest, find_slow_collectives
from unhang.knowledge.job.workarounds import Workaround

RunProbe = Callable[[Mapping[str, str]], ProbeAnswer]
MIN_SPEEDUP = 3.0
"""What a setting has to gain where the ranks work without it, and crawl."""
EQUAL_SPEED_SHARE = 0.7
"""Of two settings within this share of each other, the one that switches less off is better."""


@dataclass(frozen=True, slots=True)
class BisectTrial:
    """One set of settings and what came of it. ``bus``: bytes a second, None where nothing was measured."""

    settings: tuple[Workaround, ...]
    works: bool
    bus: float | None = None
    because: str = ""

    @property
    def set(self) -> dict[str, str]:
        """All variables of the settings."""
        return {name: value for setting in self.settings for name, value in setting.set.items()}


@dataclass(frozen=True, slots=True)
class BisectResult:
    """``before``: without any setting. ``answer``: the trial of the smallest set; None when none helps, or none is
    needed. ``again``: whether the fault was still there at the end.
    """

    before: ProbeResult | None = None
    refused: str = ""
    trials: tuple[BisectTrial, ...] = ()
    answer: BisectTrial | None = None
    again: bool = True
    out_of_time: bool = False
    superfluous: BisectTrial | None = None
    """Settings of the environment that can be taken out, where everything works with them."""
    kept: tuple[Workaround, ...] = ()
    """Settings of the environment without which it does not work."""


@dataclass(slots=True)
class Bisection:
    """One search. ``options`` gives what to try once it is known what works with what; ``tell`` hears each trial."""

    ask: RunProbe
    options: Callable[[ProbeResult], Sequence[Workaround]]
    total_s: float
    already: Callable[[ProbeResult], Sequence[Workaround]] = lambda _: ()
    """Settings that are in the environment, each as the one that takes it out."""
    tell: Callable[[BisectTrial], None] = lambda _: None
    _deadline: float = 0.0
    _before: ProbeResult | None = None
    _trials: list[BisectTrial] = field(default_factory=list)
    _out_of_time: bool = False

    def search(self) -> BisectResult:
        """Probe without settings, then for the smallest set that helps, then without settings again."""
        self._deadline = time.monotonic() + self.total_s
        first = self.ask({})
        if first.probed is None:
            return BisectResult(refused=first.refused)
        self._before = first.probed
        if first.probed.missing:
            return BisectResult(first.probed)
        if not is_broken(first.probed):
            already = tuple(one for one in self.already(first.probed) if _was_tried(one, first.probed))
            return self._without(first.probed, already)
        answer = self._smallest([*self.already(first.probed), *self.options(first.probed)])
        again = True
        if answer is not None:
            second = self.ask({}).probed
            again = second is None or is_broken(second)
        return BisectResult(first.probed, "", tuple(self._trials), answer, again, self._out_of_time)

    def _without(self, before: ProbeResult, already: tuple[Workaround, ...]) -> BisectResult:
        """Which settings of the environment can be taken out together; the others are needed."""
        out = already
        if already and not self._works(already):
            kept = minimal_subset(already, lambda kept: self._works(tuple(one for one in already if one not in kept)))
            out = tuple(one for one in already if one not in kept)
        trial = next((trial for trial in self._trials if out and trial.settings == out), None)
        left = tuple(one for one in already if one not in out)
        return BisectResult(before, "", tuple(self._trials), None, True, self._out_of_time, trial, left)

    def _smallest(self, options: Sequence[Workaround]) -> BisectTrial | None:
        singles = working_singles(options, self._works)
        if singles:
            return best_trial([trial for trial in self._trials if trial.works])
        together = smallest_together(options, self._works)
        return None if together is None else next(trial for trial in self._trials if trial.settings == together)

    def _works(self, settings: tuple[Workaround, ...]) -> bool:
        known = next((trial for trial in self._trials if trial.settings == settings), None)
        if known is not None:
            return known.works
        if time.monotonic() > self._deadline:
            self._out_of_time = True
            return False
        if not settings:
            return True  # as it was at first
        changes = {name: value for setting in settings for name, value in setting.sent.items()}
        trial = judge_trial(settings, self.ask(changes), self._before)
        self._trials.append(trial)
        self.tell(trial)
        return trial.works


def _was_tried(setting: Workaround, probed: ProbeResult) -> bool:
    """What a setting does between nodes cannot be seen on one."""
    return probed.several_nodes or setting.where != "network"


def is_broken(probed: ProbeResult) -> bool:
    """Whether something did not finish, was wrong, or crawled."""
    wrong = any(step.wrong for step in probed.steps)
    return probed.failure is not None or wrong or find_slow_collectives(probed) is not None


def judge_trial(settings: tuple[Workaround, ...], answer: ProbeAnswer, before: ProbeResult | None) -> BisectTrial:
    """The trial that ended with ``answer``: it works when all came to the end rightly, and not as slowly as before."""
    probed = answer.probed
    if probed is None:
        return BisectTrial(settings, False, because=answer.refused)
    if probed.failure is not None:
        return BisectTrial(settings, False, because=probed.failure.error)
    best_of = fastest(probed)
    bus = best_of[1] if best_of is not None else None
    if any(step.wrong for step in probed.steps):
        return BisectTrial(settings, False, bus, "a result was wrong")
    slow = fastest(before) if before is not None and find_slow_collectives(before) is not None else None
    if slow is not None and (bus is None or bus < MIN_SPEEDUP * slow[1]):
        return BisectTrial(settings, False, bus, "it crawls as before")
    return BisectTrial(settings, True, bus)


def best_trial(trials: Sequence[BisectTrial]) -> BisectTrial:
    """The fastest; of those about as fast the first, which switches least off."""
    most = max((trial.bus or 0.0 for trial in trials), default=0.0)
    return next(trial for trial in trials if (trial.bus or 0.0) >= EQUAL_SPEED_SHARE * most)


MAX_COMBINATIONS = 8
Works = Callable[[tuple[Workaround, ...]], bool]


def working_singles(options: Sequence[Workaround], works: Works) -> tuple[Workaround, ...]:
    """Every option that is enough alone, in the order given."""
    return tuple(option for option in options if works((option,)))


def smallest_together(options: Sequence[Workaround], works: Works) -> tuple[Workaround, ...] | None:
    """A set of which nothing can be left out; None when no combination tried works."""
    for combination in full_combinations(options):
        if len(combination) > 1 and works(combination):
            return minimal_subset(combination, works)
    return None


def full_combinations(options: Sequence[Workaround]) -> tuple[tuple[Workaround, ...], ...]:
    """All options at once; where several set one variable, each of those in turn."""
    by_names: dict[tuple[str, ...], list[Workaround]] = {}
    for option in options:
        by_names.setdefault(tuple(sorted(option.set)), []).append(option)
    found: dict[tuple[Workaround, ...], None] = {}
    for chosen in product(*by_names.values()):
        taken: set[str] = set()
        fitting = []
        for option in chosen:
            if not taken & set(option.set):
                taken |= set(option.set)
                fitting.append(option)
        found.setdefault(tuple(fitting))
        if len(found) == MAX_COMBINATIONS:
            break
    return tuple(found)


def minimal_subset(whole: tuple[Workaround, ...], works: Works) -> tuple[Workaround, ...]:
    """``whole``, which works, without everything it works without (delta debugging, Zeller and Hildebrandt 2002)."""
    pieces = 2
    while len(whole) > 1:
        for rest in _without_a_piece(whole, pieces):
            if rest and works(rest):
                whole, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(whole):
                return whole
            pieces = min(len(whole), pieces * 2)
    return whole


def _without_a_piece(whole: tuple[Workaround, ...], pieces: int) -> list[tuple[Workaround, ...]]:
    bounds = [len(whole) * number // pieces for number in range(pieces + 1)]
    return [whole[:start] + whole[stop:] for start, stop in pairwise(bounds)]


def needed_settings(search: BisectResult, told: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables that the machine was seen to need, and those it was seen to do without; ``told``: its environment.

    A fault that went away by itself shows nothing.
    """
    found = search.answer.set if search.answer is not None and search.again else {}
    kept = {name: told[name] for one in search.kept for name in one.set if name in told}
    gone = search.superfluous.set if search.superfluous is not None else {}
    return {name: value for name, value in found.items() if value} | kept, (
        *gone,
        *(name for name, value in found.items() if not value),
    )
