"""What the leader knows of every node: who it is, what it said last, since when it is silent, what its ranks do.

And what follows from that: which nodes are asked for evidence, and whether a verdict would be early.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unhang.watch.job.wait_detection import RankSample, RankState, WaitSnapshot
from unhang.watch.nodes.leadership import LeaderMessage
from unhang.watch.nodes.rank_digest import (
    ACTIVITIES,
    DigestColumns,
    NodeDigest,
    NodeHello,
    decoded,
    states_of,
)
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState
from unhang.watch.pace.pace_over_nodes import NodePace, SlowestRank
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.documents.other_nodes import GroupPositions
from unhang.wire.record_views import PHASES, CodeLine, MarkedPhase, RankIdentity, RecordView

SILENT_S = 5.0
"""A watcher that was killed is back before that; digests come every second at least."""
QUIET_S = 2.5
"""Digests come more often: from here on it is doubtful whether the node is there, and its machine is asked."""
DOUBT_S = 8.0
"""No longer than this is an answer of its machine waited for."""
FRESH_S = 3.0
"""Columns older than this say nothing of now."""
MIN_CLOCK_STEP_NS = 50_000_000
"""A better guess of how far a clock is ahead counts only from this on: times must not move while a wait lasts."""
SILENT_RANK = RankState(RankActivity.SILENT, None, stuck=True, in_init=False, rhythm=True)
DEAD_RANK = RankState(RankActivity.DEAD, None, stuck=True, in_init=False, rhythm=True)
OVER_RANK = RankState(RankActivity.OVER, None, stuck=True, in_init=False, rhythm=True)


@dataclass(slots=True)
class RemoteNode:
    """One other node.

    ``heard_ns``: when anything came, ``digest_ns``: when its digest did; ``met``: what it says changed since we first
    heard it; ``left``: it said good-bye; ``ahead_ns``: its monotonic clock against ours, at most; ``columns_ns``: when
    they came; ``died_ns``: when we heard last that a rank of it had died, 0: never.
    """

    number: int
    hello: NodeHello | None = None
    digest: NodeDigest | None = None
    digest_ns: int = 0
    heard_ns: int = 0
    met: bool = False
    left: bool = False
    ahead_ns: int | None = None
    columns: DigestColumns | None = None
    columns_ns: int = 0
    died_ns: int = 0
    states: dict[int, RankState] = field(default_factory=dict)
    hello_bytes: bytes = b""

    @property
    def name(self) -> str:
        """As lines call it."""
        return self.hello.name if self.hello is not None else f"node {self.number}"

    def silent_s(self, now_ns: int) -> float | None:
        """How long it has said nothing; None while it speaks, and of a node that left in order or was never met."""
        quiet_s = self.quiet_s(now_ns)
        return quiet_s if quiet_s > SILENT_S else None

    def quiet_s(self, now_ns: int) -> float:
        """The same from the first moment on; 0 of a node that left in order or was never met."""
        return (now_ns - self.heard_ns) / 1e9 if self.met and not self.over else 0.0

    def has_waited(self, for_ms: int, now_ns: int) -> bool:
        """Whether a rank of it has waited so long, by what it said last; False while it is silent."""
        return self.digest is not None and self.digest.waits_ms >= for_ms and self.silent_s(now_ns) is None

    @property
    def over(self) -> bool:
        """Its command has ended."""
        return self.left or (self.digest is not None and self.digest.over > 0)

    @property
    def exited_cleanly(self) -> bool:
        """Its command ended with 0."""
        return self.digest.over == 1 if self.digest is not None and self.digest.over else self.left

    def positions(self) -> tuple[GroupPositions, ...]:
        """How far its ranks had come, as its last columns tell."""
        if self.columns is None:
            return ()
        return tuple(
            GroupPositions(part.name, tuple(part.rank), tuple(part.enqueued), tuple(part.completed))
            for part in self.columns.groups
        )

    @property
    def ranks(self) -> list[int]:
        """All ranks it ever reported."""
        told = self.hello.ranks if self.hello is not None else []
        return told or (self.columns.rank if self.columns is not None else [])


class NodeRoster:
    """All other nodes, by number."""

    def __init__(self) -> None:
        self.nodes: dict[int, RemoteNode] = {}

    def take(self, state: TransportState) -> None:
        """What came since."""
        for heard in state.hellos:
            self._take_hello(heard, state.seat)
        for heard in state.digests:
            if heard.node != state.seat:
                self._take_digest(heard)
        for heard in state.words:
            if heard.node != state.seat and heard.heard_ns > heard.first_ns:
                self._take_leader_message(heard)

    def _take_hello(self, heard: ReceivedValue, seat: int) -> None:
        if heard.node == seat:
            return
        node = self.nodes.setdefault(heard.node, RemoteNode(heard.node))
        if heard.value != node.hello_bytes:
            node.hello_bytes, node.hello = heard.value, decoded(heard.value, NodeHello) or node.hello

    def _take_digest(self, heard: ReceivedValue) -> None:
        node = self.nodes.setdefault(heard.node, RemoteNode(heard.node))
        if heard.heard_ns == node.digest_ns:
            return
        digest = decoded(heard.value, NodeDigest)
        if digest is None:
            return
        if digest.deaths > (node.digest.deaths if node.digest is not None else 0):
            node.died_ns = heard.heard_ns
        node.digest, node.digest_ns, node.heard_ns = digest, heard.heard_ns, heard.heard_ns
        node.met = node.met or heard.heard_ns > heard.first_ns
        ahead_ns = digest.at_ns - heard.heard_ns  # less the way: the largest guess is the best
        if node.ahead_ns is None or ahead_ns - node.ahead_ns > MIN_CLOCK_STEP_NS or node.ahead_ns - ahead_ns > 60e9:
            node.ahead_ns = ahead_ns
        if digest.columns is not None:
            node.columns, node.columns_ns = digest.columns, heard.heard_ns
            node.states = states_of(digest.columns, node.ahead_ns)

    def _take_leader_message(self, heard: ReceivedValue) -> None:
        """It led: whoever followed it never read its digests."""
        node = self.nodes.setdefault(heard.node, RemoteNode(heard.node))
        node.met, node.heard_ns = True, max(node.heard_ns, heard.heard_ns)
        word = decoded(heard.value, LeaderMessage)
        node.left = word is not None and word.over

    def met(self) -> list[RemoteNode]:
        """Nodes that are or were there, in order."""
        return [node for _, node in sorted(self.nodes.items()) if node.met]

    def died_ns(self) -> int:
        """When we heard last that a rank of another node had died, by our clock; 0: never."""
        return max((node.died_ns for node in self.met()), default=0)

    def somebody_waits(self) -> bool:
        """On any node that speaks."""
        now_ns = time.monotonic_ns()
        return any(node.met and not node.over and node.has_waited(0, now_ns) for node in self.nodes.values())

    def without_fresh_columns(self, now_ns: int) -> list[RemoteNode]:
        """Nodes that speak and have not reported each of their ranks just now."""
        return [
            node
            for node in self.met()
            if now_ns - node.columns_ns >= FRESH_S * 1e9 and not node.over and node.silent_s(now_ns) is None
        ]

    def states(self, now_ns: int) -> dict[int, RankState]:
        """Every rank of every other node."""
        found: dict[int, RankState] = {}
        for node in self.met():
            if node.over:
                found.update(dict.fromkeys(node.ranks, OVER_RANK if node.exited_cleanly else DEAD_RANK))
            elif node.silent_s(now_ns) is not None:
                found.update(dict.fromkeys(node.ranks, SILENT_RANK))
            else:
                found.update(node.states)
        return found

    def paces(self, now_ns: int) -> dict[int, NodePace | None]:
        """What every other node reported of the rank that waits least; None of one that did not, or is not heard."""
        return {
            node.number: node.digest.pace if node.digest is not None and node.quiet_s(now_ns) < SILENT_S else None
            for node in self.met()
            if not node.over
        }

    def by_rank(self) -> dict[int, RemoteNode]:
        """Where every rank is that another node reported."""
        return {rank: node for node in self.nodes.values() for rank in (*node.ranks, *node.states)}


_LETTERS = {RankActivity.STOPPED: "T", RankActivity.DEAD: ""}


def remote_sample(node: RemoteNode, rank: int) -> RankSample | None:
    """None where the node never reported it."""
    columns, ahead_ns = node.columns, node.ahead_ns or 0
    if columns is None or rank not in columns.rank:
        return None
    at = columns.rank.index(rank)
    view = RecordView(
        RankIdentity(rank=rank),
        beat_ns=_by_our_clock(columns.beat_ns[at], ahead_ns),
        since_ns=_by_our_clock(columns.still_ns[at], ahead_ns),
        phase=PHASES[columns.phase[at]],
        steps=max(0, columns.step[at]),
        step_source="guards" if columns.step[at] >= 0 else "none",
        user=_place(columns.places[columns.place[at]]) if columns.place[at] >= 0 else CodeLine(),
    )
    label = columns.labels[columns.label[at]] if columns.label[at] >= 0 else ""
    for marked, since_ns, at_most_ns in columns.marks:
        if marked == rank and label:
            view.mark = MarkedPhase(label, view.phase, _by_our_clock(since_ns, ahead_ns), at_most_ns)
    return RankSample(view, _LETTERS.get(ACTIVITIES[columns.doing[at]], "S"))


def _by_our_clock(at_ns: int, ahead_ns: int) -> int:
    return at_ns - ahead_ns if at_ns > 0 else -1


def _place(text: str) -> CodeLine:
    file, _, line = text.rpartition(":")
    return CodeLine(file, int(line) if line.isdecimal() else 0)


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


FEW_SHARE = 0.02
"""Of thousands of nodes so many are always late: they hold nothing up when their ranks cannot be to blame."""


def newly_quiet(nodes: Sequence[RemoteNode], answers: Callable[[int], bool | None], now_ns: int) -> list[RemoteNode]:
    """Nodes that have just fallen quiet: soon they are heard again, or known to be gone.

    ``answers``: whether the machine of a node answers since then; None where that is not known.
    """
    quiet = [node for node in nodes if QUIET_S < node.quiet_s(now_ns) < DOUBT_S]
    asked = {node.number for node in quiet if node.hello is not None and node.hello.address}
    return [
        node
        for node in quiet
        if node.silent_s(now_ns) is None or (node.number in asked and answers(node.number) is None)
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
