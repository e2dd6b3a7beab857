"""What the source makes possible where nothing that ran tells the cause: a reason to look, never a finding."""

from __future__ import annotations

from collections.abc import Mapping

from unhang.facts.model import Facts
from unhang.findings import Cause
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.sentences import Text, say

MAX_TOLD = 2
"""Places named for a cause."""


def source_suspects(facts: Facts) -> Mapping[Cause, tuple[Text, ...]]:
    """Causes whose making stands in the source that was read, with the places."""
    if facts.all_joined_stalls:
        return {}  # every rank joined: what each does by itself explains nothing
    drawn = [(file.path, split) for file, split in unseeded_splits(facts.sources.values()) if _cuts(split)]
    drawn.sort(key=lambda found: not found[1].splits)
    return {Cause.UNEVEN_DATA: tuple(_split_sentence(path, split) for path, split in drawn[:MAX_TOLD])} if drawn else {}


def _cuts(split: UnseededSplit) -> bool:
    """A loader or sampler that shuffles only orders what was drawn before."""
    return split.splits or not split.call.endswith(("DataLoader", "Sampler"))


def _split_sentence(path: str, split: UnseededSplit) -> Text:
    if split.why == "seed-differs":
        return say(
            "{call} at {path}:{line} is seeded with the rank: every rank gets another split",
            call=split.call,
            path=path,
            line=split.line,
        )
    if split.why == "hash-order":
        return say(
            "{call} at {path}:{line} has another order in every process: every rank may get another split",
            call=split.call,
            path=path,
            line=split.line,
        )
    return say(
        "{call} at {path}:{line} has no seed: every rank may get another split",
        call=split.call,
        path=path,
        line=split.line,
    )
