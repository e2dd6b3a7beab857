"""Who leads: the first node that is there. When it falls silent the next one does, after a pause that grows with its
number, so that no two take over at once; when it comes back it leads again."""

from __future__ import annotations

import enum

from unhang.watch.nodes.transport.exchange_opener import MAX_LEADERS
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState, seconds_since

ARRIVES_S = 10.0
"""So long after we met, a node before us may still be starting."""
FIRST_PAUSE_S, PAUSE_S = 3.0, 3.0
ALONE_AFTER_S = 20.0


class Role(enum.Enum):
    """What this node's watcher does."""

    UNDECIDED = "holds"
    """It does not know yet: it gives no verdict."""
    FOLLOWS = "follows"
    LEADS = "leads"
    ALONE = "alone"
    """No other node can be reached: it judges what it sees itself."""


def elect_role(state: TransportState | None, started_ns: int) -> tuple[Role, int]:
    """(what we do, who leads; -1: nobody)."""
    if state is None or not state.met:
        since_ns = state.since_ns if state is not None else started_ns
        hopeless = state is not None and state.is_permanent
        return (Role.ALONE if hopeless or seconds_since(since_ns) > ALONE_AFTER_S else Role.UNDECIDED), -1
    words = {heard.node: heard for heard in state.words}
    for node in range(min(state.seat, MAX_LEADERS)):
        if _there(words.get(node)):
            return Role.FOLLOWS, node
    if state.seat >= MAX_LEADERS:
        return Role.ALONE if _quiet_s(words, state) > ALONE_AFTER_S else Role.UNDECIDED, -1
    if state.seat == 0 or _quiet_s(words, state) > FIRST_PAUSE_S + PAUSE_S * state.seat:
        return Role.LEADS, state.seat
    return Role.UNDECIDED, -1


def _there(word: ReceivedValue | None) -> bool:
    """It spoke lately; what never changes was left by an earlier run."""
    if word is None:
        return False
    return word.heard_ns > word.first_ns and seconds_since(word.heard_ns) < FIRST_PAUSE_S


def _quiet_s(words: dict[int, ReceivedValue], state: TransportState) -> float:
    """Since when no node before us spoke; those that never did may take some seconds to come."""
    spoke = [heard.heard_ns for heard in words.values() if heard.node < state.seat and heard.heard_ns > heard.first_ns]
    if spoke:
        return seconds_since(max(spoke))
    return seconds_since(state.since_ns) - ARRIVES_S
