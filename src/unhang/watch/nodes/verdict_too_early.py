"""Whether a verdict would be early: a node has just fallen quiet, or has not reported its ranks yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from unhang.watch.job.wait_detection import RankState
from unhang.watch.nodes.node_roster import DOUBT_S, QUIET_S, RemoteNode

FEW_SHARE = 0.02
"""Of thousands of nodes so many are always late: they hold nothing up when their ranks cannot be to blame."""


def newly_quiet(nodes: Sequence[RemoteNode], answers: Callable[[int], bool | None], now_ns: int) -> list[RemoteNode]:
    """Nodes that have just fallen quiet: soon they are heard again, or known to be gone.

    ``answers``: whether the machine of a node answers since then; None where that is not known.
    """
    quiet = [node for node in nodes if QUIET_S < node.quiet_s(now_ns) < DOUBT_S]
    return [
        node for node in quiet if node.silent_s(now_ns) is None or (node.reachable and answers(node.number) is None)
    ]


def could_change_blame(
    unsure: Sequence[RemoteNode], nodes: Sequence[RemoteNode], states: Mapping[int, RankState]
) -> bool:
    """Whether what ``unsure`` nodes do now may change who is to blame. ``states``: of all ranks, as last heard.

    It cannot where they are few, all their ranks waited when they were last heard, and a rank of another node stands
    where it makes the others wait.
    """
    if not unsure:
        return False
    if len(unsure) > FEW_SHARE * len(nodes) or not all(node.states for node in unsure):
        return True
    ranks = {rank for node in unsure for rank in (*node.ranks, *node.states)}
    waited = {rank for node in unsure for rank, state in node.states.items() if state.waits}
    if ranks != waited:
        return True
    return not any(state.stuck and not state.waits for rank, state in states.items() if rank not in ranks)
