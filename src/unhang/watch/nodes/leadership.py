"""Who leads, and what a leader says to the other nodes: that it is there, what it wants of them, the verdict it gave.

The first node that is there leads. When it falls silent the next one does, after a pause that grows with its number, so
that no two take over at once; when it comes back it leads again.
"""

from __future__ import annotations

import enum

import msgspec

from unhang.watch.nodes.transport.exchange_opener import MAX_LEADERS
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState, seconds_since
from unhang.wire.documents.verdict_summary import VerdictSummary

MAX_TEXT = 200_000
"""Bytes of a verdict's file; a longer one does not travel."""


class SampleRequest(msgspec.Struct, array_like=True, frozen=True):
    """Evidence is wanted. ``since_ns``: the leader's monotonic clock, since when ranks wait (-1: they do not);
    ``nodes``: of which nodes, empty: of all; ``live``: the job still runs; ``samples``: so many, at a job that
    moves, 0 where ranks wait."""

    number: int
    since_ns: int
    with_stacks: bool = False
    live: bool = True
    nodes: list[int] = []
    samples: int = 0


class LeaderMessage(msgspec.Struct, array_like=True, frozen=True):
    """A leader at ``at_ns`` of its clock. ``whole``: digests are wanted with columns; ``said``: number of its last
    verdict (``v/N``), 0 before there was one; ``over``: it is about to leave."""

    at_ns: int
    whole: bool = False
    request: SampleRequest | None = None
    said: int = 0
    over: bool = False


class LeaderVerdict(msgspec.Struct, array_like=True, frozen=True):
    """A verdict for all nodes, or (``ended``) that the wait it was about is over. ``abort``: the job is being ended."""

    number: int
    node: str
    folder: str
    summary: VerdictSummary
    verdict: bytes = b""
    ended: bool = False
    abort: bool = False


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
