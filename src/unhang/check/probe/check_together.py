"""``unhang check`` as one of several tasks of a launcher: each inspects its node, rank 0 compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unhang.check.probe.gather_answers import LIMIT_S, exchange_answers
from unhang.check.sameness.inspection_message import decode_inspection, encode_inspection
from unhang.errors import EvidenceError
from unhang.findings import NotChecked
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import LauncherTask
from unhang.sentences import Text, rank_ranges, say

HOW = "srun --ntasks-per-node=1 unhang check --dir SHARED"


def gather_inspections(
    task: LauncherTask, here: NodeInspection, folder: Path | None, limit_s: float = LIMIT_S
) -> tuple[Sequence[NodeInspection], tuple[NotChecked, ...]] | None:
    """What every rank saw, and who is missing; None in every rank whose answer the first one took, which alone judges.

    ``folder`` is shared by all; without one they meet at torch's store.
    """
    here = replace(here, rank=task.rank)
    met = exchange_answers(task, encode_inspection(here), folder, limit_s)
    if met is None or (met.because is not None and task.local_rank > 0):
        return None
    found, gaps = {task.rank: here}, []
    for rank, message in met.answers.items():
        if rank != task.rank:
            try:
                found[rank] = replace(decode_inspection(message), rank=rank)
            except EvidenceError as error:
                gaps.append(_gap(say("Rank {rank}", rank=rank), say("{reason}", reason=str(error))))
    missing = [rank for rank in range(task.count) if rank not in met.answers]
    if missing:
        because = met.because or say("they did not come in {seconds:.0f} s", seconds=limit_s)
        what = say("The nodes of ranks {ranks}", ranks=rank_ranges(missing))
        gaps.append(_gap(what, because))
    return _share_node_answers([found[rank] for rank in sorted(found)]), tuple(gaps)


def _gap(what: Text, because: Text) -> NotChecked:
    return NotChecked(what, because, HOW, check="sameness")


def _share_node_answers(situations: Sequence[NodeInspection]) -> list[NodeInspection]:
    """Only one rank of a node asks everything; the others know what it knows."""
    first: dict[str, NodeInspection] = {}
    for situation in situations:
        known = first.get(situation.node)
        if known is None or len(situation.results) > len(known.results):
            first[situation.node] = situation
    return [replace(s, results={**first[s.node].results, **s.results}) for s in situations]
