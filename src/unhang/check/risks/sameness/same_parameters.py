"""Ranks train different models.

What happens: before the first step the parameters under the optimizer differ in number, shape or value.

Why it hangs: ranks reduce tensors of different sizes or in another order; where only the values differ nothing hangs,
the ranks drift apart.

Example: a layer is frozen, or a token is added to the vocabulary, on rank 0 only.

Fix: build the model the same way on every rank, or load one checkpoint everywhere.

Certain when: never before the collective runs.

Possible when: only the values differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.sameness.same_lines import CHECK
from unhang.check.sameness.sameness import ModelParameters, RankStart, starts_of, values_by_ranks
from unhang.findings import Cause, Certainty, Finding, NotChecked, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Judge the parameters of all ranks that came to a step."""
    starts = [start for start in starts_of(situations) if start.parameters is not None]
    held = [start.parameters for start in starts if start.parameters is not None]
    if len(held) < 2:
        return
    if any(one.kind == "sharded" for one in held):
        what = say("Whether all ranks hold the same parameters")
        yield NotChecked(what, say("every rank holds its own part of them"), check=CHECK)
    elif len({(one.count, one.shapes) for one in held}) > 1:
        yield _shapes(starts, held)
    elif len({one.values for one in held}) > 1:
        yield _values(starts, held)
    else:
        yield PassedCheck(CHECK, say("the same {count} parameters on every rank", count=held[0].count))


def _shapes(starts: Sequence[RankStart], held: Sequence[ModelParameters]) -> Finding:
    other = next(one for one in held if (one.count, one.shapes) != (held[0].count, held[0].shapes))
    return risk(
        CHECK,
        "parameters",
        Cause.COLLECTIVE_MISMATCH,
        say("Ranks train models of different shape"),
        because=(
            say("parameters: {counts}", counts=values_by_ranks(starts, _count)),
            *_first(held[0], other, slice(0, 2)),
        ),
        remedies=(_remedy(),),
    )


def _values(starts: Sequence[RankStart], held: Sequence[ModelParameters]) -> Finding:
    other = next(one for one in held if one.values != held[0].values)
    return risk(
        CHECK,
        "parameters",
        Cause.COLLECTIVE_MISMATCH,
        say("Ranks begin with different weights: nothing hangs, but they do not train one model"),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        because=(
            say(
                "weights: {values}",
                values=values_by_ranks(starts, lambda s: s.parameters.values if s.parameters else ""),
            ),
            *_first(held[0], other, slice(0, 3)),
        ),
        remedies=(_remedy(),),
    )


def _count(start: RankStart) -> int:
    return start.parameters.count if start.parameters is not None else 0


def _first(one: ModelParameters, other: ModelParameters, part: slice) -> tuple[Text, ...]:
    """The first row in which the two differ."""
    for mine, theirs in zip_longest(one.rows, other.rows):
        if mine is None or theirs is None or mine[part] != theirs[part]:
            left, right = (" ".join(row[part]) if row else "-" for row in (mine, theirs))
            return (say("the first difference: {one} beside {other}", one=left, other=right),)
    return ()


def _remedy() -> Remedy:
    return Remedy(
        say("Build the model the same way on every rank"),
        RemedyKind.CODE,
        say("the same seed before it is built, or one checkpoint loaded everywhere; no branch on the rank"),
        say("none"),
        say("unhang check --dry-run -- CMD"),
    )
