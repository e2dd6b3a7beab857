"""Which nodes are asked for evidence: those that may be to blame, and some that speak for the rest."""

from __future__ import annotations

from collections.abc import Iterable

from unhang.watch.job.wait_detection import WaitSnapshot
from unhang.watch.nodes.node_roster import QUIET_S, NodeRoster
from unhang.watch.pace.pace_over_nodes import SlowestRank

MAX_ASKED = 16
"""Nodes whose evidence is asked for, those of laggards first."""
WITNESSES = 6
"""So many others speak for thousands that wait; the verdict waits for all that is asked for."""
_FIRST = 64


def nodes_for_stall(roster: NodeRoster, snapshot: WaitSnapshot | None, now_ns: int) -> list[int]:
    """Nodes to ask because ranks wait, or (None) because the job has ended."""
    # Who left in order has nothing to tell; who failed left its evidence behind.
    there = [node for node in roster.met() if node.silent_s(now_ns) is None and not node.exited_cleanly]
    if len(there) <= MAX_ASKED or snapshot is None:
        return [node.number for node in there[:MAX_ASKED]]
    late, first = set(snapshot.laggards), set(snapshot.waiters[:_FIRST])

    def worth(ranks: Iterable[int]) -> int:
        return 2 if not late.isdisjoint(ranks) else 1 if not first.isdisjoint(ranks) else 0

    worths = {node.number: worth(node.states) for node in there}
    guilty = sum(value == 2 for value in worths.values())
    most = min(MAX_ASKED, guilty + WITNESSES) if guilty else MAX_ASKED
    return sorted(sorted(worths, key=lambda number: (-worths[number], number))[:most])


def nodes_for_pace(roster: NodeRoster, slow: SlowestRank, now_ns: int) -> list[int]:
    """The node with the slow rank, or another one to compare ours with; all where no rank is slow."""
    there = [known.number for known in roster.met() if not known.over and known.quiet_s(now_ns) < QUIET_S]
    return [known for known in there if slow.node in (None, known)][: MAX_ASKED if slow.rank is None else 1]
