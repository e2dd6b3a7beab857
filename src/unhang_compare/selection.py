"""Which part of a run or trace is compared: steps and ranks, as the user named them."""

from __future__ import annotations

from dataclasses import dataclass

from unhang_compare.comparison_side import ComparisonSide, parse_numbers, parse_span, select_ranks, select_steps


@dataclass(frozen=True, slots=True)
class Selection:
    """``steps``: first and last; ``ranks``: global. None: all of them. The options that name them stand in errors."""

    steps: tuple[int, int] | None
    ranks: tuple[int, ...] | None
    steps_option: str = "--steps"
    ranks_option: str = "--ranks"

    def of(self, side: ComparisonSide) -> ComparisonSide:
        """That part of ``side``. UsageError where it holds nothing of it."""
        if self.ranks is not None:
            side = select_ranks(side, self.ranks, self.ranks_option)
        return side if self.steps is None else select_steps(side, self.steps, self.steps_option)


def parse_selections(
    steps: str | None, against: str | None, ranks: str | None, against_ranks: str | None
) -> tuple[Selection, Selection]:
    """The parts before and after, from the words of the user: ``100:200`` and ``0,4-7``. UsageError for others."""
    before = _selection(steps, ranks, "--steps", "--ranks")
    after = _selection(
        steps if against is None else against,
        ranks if against_ranks is None else against_ranks,
        "--steps" if against is None else "--against",
        "--ranks" if against_ranks is None else "--against-ranks",
    )
    return before, after


def _selection(steps: str | None, ranks: str | None, steps_option: str, ranks_option: str) -> Selection:
    return Selection(
        None if steps is None else parse_span(steps, steps_option),
        None if ranks is None else parse_numbers(ranks, ranks_option),
        steps_option,
        ranks_option,
    )
