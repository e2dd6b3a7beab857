"""Which part of a run or trace is compared: steps and ranks, as the user named them."""

from __future__ import annotations

from dataclasses import dataclass

from unhang_compare.run_material import Material, numbers, of_ranks, of_steps, span


@dataclass(frozen=True, slots=True)
class Cut:
    """``steps``: first and last; ``ranks``: global. None: all of them. The options that name them stand in errors."""

    steps: tuple[int, int] | None
    ranks: tuple[int, ...] | None
    steps_option: str = "--steps"
    ranks_option: str = "--ranks"

    def of(self, side: Material) -> Material:
        """That part of ``side``. UsageError where it holds nothing of it."""
        if self.ranks is not None:
            side = of_ranks(side, self.ranks, self.ranks_option)
        return side if self.steps is None else of_steps(side, self.steps, self.steps_option)


def cuts(steps: str | None, against: str | None, ranks: str | None, against_ranks: str | None) -> tuple[Cut, Cut]:
    """The parts before and after, from the words of the user: ``100:200`` and ``0,4-7``. UsageError for others."""
    before = _cut(steps, ranks, "--steps", "--ranks")
    after = _cut(
        steps if against is None else against,
        ranks if against_ranks is None else against_ranks,
        "--steps" if against is None else "--against",
        "--ranks" if against_ranks is None else "--against-ranks",
    )
    return before, after


def _cut(steps: str | None, ranks: str | None, steps_option: str, ranks_option: str) -> Cut:
    return Cut(
        None if steps is None else span(steps, steps_option),
        None if ranks is None else numbers(ranks, ranks_option),
        steps_option,
        ranks_option,
    )
