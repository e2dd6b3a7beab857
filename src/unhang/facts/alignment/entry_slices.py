"""Cut the recorded collectives of one rank into the parts detectors ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from unhang.evidence.items import STATE_COMPLETED, RecorderEntries

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_COLUMNS = tuple(
    field.name for field in fields(RecorderEntries) if field.name not in ("group_names", "signatures", "stacks")
)


def select_rows(
    entries: RecorderEntries, keep: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | Sequence[int]
) -> RecorderEntries:
    """The rows of ``entries`` that ``keep`` selects (mask or indexes); the tables are shared."""
    return replace(entries, **{name: getattr(entries, name)[keep] for name in _COLUMNS})


def split_by_group(entries: RecorderEntries) -> dict[str, tuple[RecorderEntries, RecorderEntries]]:
    """Group name → (collectives, P2P), oldest first."""
    parts: dict[str, tuple[RecorderEntries, RecorderEntries]] = {}
    order = entries.group.argsort(kind="stable")  # one pass over all entries, however many groups there are
    groups = entries.group[order]
    starts = [0, *((groups[1:] != groups[:-1]).nonzero()[0] + 1).tolist(), len(order)]
    for start, end in pairwise(starts if len(order) else ()):
        at = order[start:end]
        p2p = entries.is_p2p[at]
        parts[entries.group_names[int(groups[start])][0]] = (
            select_rows(entries, at[~p2p]),
            select_rows(entries, at[p2p]),
        )
    return parts


def unfinished_rows(entries: RecorderEntries) -> npt.NDArray[np.bool_]:
    """Rows that are not known to have completed."""
    open_rows: npt.NDArray[np.bool_] = entries.state != STATE_COMPLETED
    return open_rows
