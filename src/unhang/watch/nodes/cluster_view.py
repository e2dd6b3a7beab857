"""The other nodes as this node's watcher sees them: it tells them of its ranks, and leads, follows or is alone.

Nothing here waits: the carrier does that. A leader judges the ranks of all nodes and gives the verdict; the others
tell, take evidence when they are asked to, and show the verdict.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from unhang.watch.job.job_ranks import JobRank
from unhang.watch.job.wait_detection import (
    SAME_WAIT_NS,
    RankActivity,
    RankSample,
    RankState,
    WaitDetector,
    WaitSnapshot,
)
from unhang.watch.nodes import leader_messages, node_selection, verdict_too_early
from unhang.watch.nodes import rank_digest as digests
from unhang.watch.nodes.evidence_gathering import NodeAtSample
from unhang.watch.nodes.leader_election import Role, elect_role
from unhang.watch.nodes.leader_messages import LeaderMessage, LeaderVerdict, SampleRequest
from unhang.watch.nodes.node_roster import QUIET_S, NodeRoster, RemoteNode
from unhang.watch.nodes.rank_digest import NodeHello, NodeRanks, clock_ahead_s, digest_of
from unhang.watch.nodes.remote_samples import remote_sample
from unhang.watch.nodes.transport.exchange_opener import TransportConfig
from unhang.watch.nodes.transport.mailbox import TransportRequest, TransportState, request_mailbox, state_mailbox
from unhang.watch.nodes.transport.node_discovery import JobNodes, discover_nodes, node_name
from unhang.watch.nodes.transport.transport_main import write_config
from unhang.watch.nodes.transport.transport_process import TransportProcess
from unhang.watch.pace.call_digests import CallDigest, differing_nodes
from unhang.watch.pace.pace_over_nodes import NodePace, SlowestRank
from unhang.watch.reporting.verdict_summary import VerdictSummary
from unhang.watch.run_folder import RunPlan

COLUMNS_AFTER_MS = 400
"""A rank that has waited so long is worth telling of each rank."""
COLUMNS_FOR_S = 3.0
"""Columns are wanted for so long after the last wait: waits come in rows."""
LEAVE_LIMIT_S = 2.0
"""No longer is the carrier waited for when it takes away what is left."""


class ClusterView:
    """One node among the nodes of one start."""

    def __init__(self, party: JobNodes, name: str, folder: Path, records: Path, lang: str = "en") -> None:
        self.party, self.name, self._folder = party, name, folder
        self.roster = NodeRoster()
        self.role, self.leader = Role.UNDECIDED, -1
        self._errands, self._news = request_mailbox(records), state_mailbox(records)
        self._started_ns = time.monotonic_ns()
        self._transport = TransportProcess(folder, records)
        self._ranks = NodeRanks({}, {})
        self._hello: NodeHello | None = None
        self._turn: tuple[int, object] = (0, None)
        self._word = LeaderMessage(0)
        self._said = b""
        self._said_number = self._heard_number = 0
        self._obeyed = self._packed = 0
        self._wanted: tuple[int, list[int]] = (0, [])
        self._columns_until = 0.0
        self._deaths = self._over = 0
        self._pace: NodePace | None = None
        self._calls: Sequence[CallDigest] = ()
        self._leaving = False
        self.in_doubt = False
        """A node has just fallen quiet: a verdict now would be early."""
        self._standing: WaitSnapshot | None = None
        """Of all nodes, as it was judged last."""
        self.watched = False
        """Somebody looks at the run: every rank of every node is wanted."""
        self._news.drop()  # an earlier watcher's: it says nothing of now
        write_config(records, TransportConfig.of(party, name, folder, time.time_ns(), lang))

    @classmethod
    def of_run(cls, plan: RunPlan, folder: Path, records: Path) -> ClusterView | None:
        """None for a start on one machine. Raises OSError where there is no room for our papers."""
        party = discover_nodes(os.environ, plan.command, plan.nodes_via)
        return cls(party, node_name(os.environ), folder, records, plan.lang) if party is not None else None

    @property
    def news(self) -> TransportState | None:
        """What the carrier told last."""
        return self._news.last

    @property
    def hurries(self) -> bool:
        """Somebody waits, here or elsewhere."""
        return time.monotonic() < self._columns_until

    @property
    def judges(self) -> bool:
        """This node gives verdicts: for all, or for itself alone."""
        return self.role in (Role.LEADS, Role.ALONE)

    def tick(
        self,
        now_ns: int,
        looks: Mapping[int, RankSample],
        states: Mapping[int, RankState],
        *,
        deaths: int,
        over: int = 0,
        pace: NodePace | None = None,
        calls: Sequence[CallDigest] = (),
    ) -> None:
        """Take what came, tell what is. ``over``: the command has ended, 1 well, 2 not."""
        if deaths > self._deaths:
            self._columns_until = time.monotonic() + COLUMNS_FOR_S  # the leader should hear of it at once
        self._ranks, self._deaths, self._over = NodeRanks(looks, states), deaths, over
        self._pace, self._calls = pace, calls
        if self._news.refresh() and self.news is not None:
            self.roster.take(self.news)
        self.role, self.leader = elect_role(self.news, self._started_ns)
        self._transport.keep(self.news.at_ns if self.news is not None else None)
        self._tell(now_ns)

    def judge(self, detector: WaitDetector, now_ns: int, states: Mapping[int, RankState]) -> WaitSnapshot | None:
        """Who waits for whom, on all nodes where we lead; None where nobody waits, or where it is not ours to say."""
        if self.role is Role.ALONE or (self.role is Role.LEADS and not self.roster.met()):
            return detector.judge(now_ns, states)
        if self.role is not Role.LEADS:
            self._standing = None
            return None
        if not (self.roster.somebody_waits() or self._waited_ms(now_ns) >= 0):
            self._standing = detector.judge(now_ns, {})
        else:
            every = {**self.roster.states(now_ns), **states}
            early = self._is_too_early(now_ns, every)
            self._standing = self._held(now_ns, every) if early else detector.judge(now_ns, every)
        return self._standing

    def _is_too_early(self, now_ns: int, every: Mapping[int, RankState]) -> bool:
        """Nodes that just fell quiet, or did not tell of their ranks just now, may hold whoever is to blame."""
        nodes = self.roster.met()
        quiet = verdict_too_early.newly_quiet(nodes, self.answers, now_ns)
        self.in_doubt = verdict_too_early.could_change_blame(quiet, nodes, every)
        return self.in_doubt or verdict_too_early.could_change_blame(
            self.roster.without_fresh_columns(now_ns), nodes, every
        )

    def _held(self, now_ns: int, every: Mapping[int, RankState]) -> WaitSnapshot | None:
        """Who is late is known again in a moment: until then the wait that was known goes on, unless it ended."""
        known = self._standing
        first = every.get(known.waiters[0]) if known is not None else None
        if known is None or first is None or (first.waits_ns is None and first.doing is not RankActivity.SILENT):
            return None
        if first.waits_ns is not None and abs(first.waits_ns - known.since_ns) > SAME_WAIT_NS:
            return None
        return replace(known, waited_s=(now_ns - known.since_ns) / 1e9, due=False)

    def samples(self, ranks: Iterable[int]) -> dict[int, RankSample]:
        """What is known of ranks of other nodes, for those who want to know a little more of a few."""
        found, where = {}, self.roster.by_rank()
        for rank in ranks:
            node = where.get(rank)
            look = remote_sample(node, rank) if node is not None else None
            if look is not None:
                found[rank] = look
        return found

    def members(self, ranks: Iterable[int]) -> dict[int, JobRank]:
        """The same, as members of the run."""
        return {rank: JobRank(rank, look.view.identity.pid, look.view) for rank, look in self.samples(ranks).items()}

    def paces(self) -> dict[int, NodePace | None] | None:
        """How the others get on in a job that moves; None where this node is alone."""
        alone = self.role is Role.ALONE or (self.role is Role.LEADS and not self.roster.met())
        return None if alone else self.roster.paces(time.monotonic_ns()) if self.role is Role.LEADS else {}

    def request_pace(self, number: int, slow: SlowestRank, *, looks: int) -> list[int]:
        """Ask for evidence of a job that moves."""
        now_ns = time.monotonic_ns()
        nodes = node_selection.nodes_for_pace(self.roster, slow, now_ns)
        self._word = structs.replace(self._word, look=SampleRequest(number, -1, nodes=nodes or [-1], looks=looks))
        self._wanted = (number, nodes)
        self._tell(now_ns)
        return nodes

    def that_call_otherwise(self) -> list[int]:
        """Nodes to ask because the ranks of two, perhaps ours, called different things; empty where none did.

        A third one is among them: it shows which of the two is the odd one.
        """
        if self.role is not Role.LEADS:
            return []
        told: dict[int | None, Sequence[CallDigest]] = {None: self._calls}
        told.update((node.number, node.digest.calls) for node in self.roster.met() if node.digest is not None)
        differing = differing_nodes(told)
        third = [node for node in told if node not in differing][:1] if differing else []
        return [node for node in (*differing, *third) if node is not None]

    def request_calls(self, number: int, nodes: list[int]) -> list[int]:
        """Ask these nodes for dumps with lines."""
        self._word = structs.replace(self._word, look=SampleRequest(number, -1, with_stacks=True, nodes=nodes))
        self._wanted = (number, nodes)
        self._tell(time.monotonic_ns())
        return nodes

    def request_evidence(
        self, number: int, standing: WaitSnapshot | None, *, with_stacks: bool, live: bool = True
    ) -> list[int]:
        """Ask for evidence; returns the nodes it will come from."""
        nodes = node_selection.nodes_for_stall(self.roster, standing, time.monotonic_ns())
        since_ns = standing.since_ns if standing is not None else -1
        few = nodes if len(nodes) < len(self.roster.met()) else []
        self._word = structs.replace(self._word, look=SampleRequest(number, since_ns, with_stacks, live, few))
        self._wanted = (number, nodes)
        self._tell(time.monotonic_ns())
        return nodes

    def nodes_at_sample(self, asked: Iterable[int]) -> tuple[NodeAtSample, ...]:
        """Every other node, as it is when a look begins."""
        now_ns, ours = time.monotonic_ns(), self._hello
        wanted = set(asked)
        return tuple(
            NodeAtSample(
                number=node.number,
                name=node.name,
                host=node.hello.host if node.hello is not None else "",
                ranks=tuple(node.ranks),
                silent_s=node.silent_s(now_ns),
                answers=self.answers(node.number),
                answered=self.news is not None and node.number in self.news.answered,
                asked=node.number in wanted,
                positions=() if node.number in wanted else node.positions(),
                ahead_s=clock_ahead_s(ours, node.hello, node.ahead_ns or 0) if ours and node.hello else 0.0,
            )
            for node in self.roster.met()
        )

    def silent(self) -> list[RemoteNode]:
        """Nodes that were there and say nothing any more."""
        now_ns = time.monotonic_ns()
        return [node for node in self.roster.met() if node.silent_s(now_ns) is not None]

    def answers(self, number: int) -> bool | None:
        """Whether the machine of a node answers since its watcher is silent; None where that is not known."""
        node, answer = self.roster.nodes.get(number), self.news.answers.get(number) if self.news is not None else None
        if answer is None or (node is not None and answer[0] - node.heard_ns < QUIET_S * 1e9):
            return None  # asked before its watcher fell silent: that tells nothing of now
        return answer[1]

    def take_sample_request(self) -> SampleRequest | None:
        """A look the leader asks for, once each; its time is turned into ours."""
        heard = next((h for h in self.news.words if h.node == self.leader), None) if self.news is not None else None
        word = (
            leader_messages.read_leader_message(heard.value)
            if heard is not None and self.role is Role.FOLLOWS
            else None
        )
        if heard is None or word is None or word.look is None or word.look.number == self._obeyed:
            return None
        look = word.look
        self._obeyed = look.number
        if self.news is None or (look.nodes and self.news.seat not in look.nodes):
            return None
        since_ns = heard.heard_ns - (word.at_ns - look.since_ns) if look.since_ns >= 0 else -1
        return structs.replace(look, since_ns=since_ns)

    def packed(self, number: int) -> None:
        """Evidence for the leader's look ``number`` lies in :attr:`pack_path`."""
        self._packed = number
        self._tell(time.monotonic_ns())

    @property
    def leader_left(self) -> bool:
        """Whoever led before left in order: its command has ended."""
        heard = self.news.words if self.news is not None else []
        told = [
            leader_messages.read_leader_message(word.value)
            for word in heard
            if self.news is not None and word.node < self.news.seat
        ]
        return any(word is not None and word.over for word in told)

    @property
    def pack_path(self) -> Path:
        """Where evidence for others is packed."""
        return self._folder / ".unhang" / "nodes" / "pack.zip"

    @property
    def arrival_path(self) -> Path:
        """Where packed evidence of others arrives."""
        return self._folder / ".unhang" / "nodes" / "came"

    def say(self, summary: VerdictSummary, verdict: bytes, *, abort: bool = False, ended: bool = False) -> None:
        """A verdict for all, or that the wait it was about is over."""
        if self.role is not Role.LEADS:
            return
        self._said_number += 1
        said = leader_messages.build_leader_verdict(
            self._said_number, self.name, str(self._folder), summary, verdict, abort=abort
        )
        said = structs.replace(said, ended=ended)
        self._said = leader_messages.encode_message(said)
        self._word = structs.replace(self._word, said=self._said_number)
        self._tell(time.monotonic_ns())

    def take_leader_verdict(self) -> LeaderVerdict | None:
        """A verdict of the leader that was not heard yet."""
        heard = next((h for h in self.news.said if h.node == self.leader), None) if self.news is not None else None
        if heard is None or self.role is not Role.FOLLOWS or heard.heard_ns == self._heard_number:
            return None
        self._heard_number = heard.heard_ns
        return leader_messages.read_leader_verdict(heard.value)

    def end(self, *, well: bool, wait_s: float = 0.5) -> None:
        """The command is over: tell so, and leave."""
        self._over = 1 if well else 2
        self._word = structs.replace(self._word, over=True)
        self._tell(time.monotonic_ns())
        if self.news is not None and self.news.met:
            time.sleep(wait_s)
            self._leave()
        self._transport.end()

    def _leave(self) -> None:
        self._leaving = True
        self._tell(time.monotonic_ns())
        deadline = time.monotonic() + LEAVE_LIMIT_S
        while time.monotonic() < deadline:
            self._news.refresh()
            if self.news is None or self.news.left or not self.news.met:
                return
            time.sleep(0.02)

    def _waited_ms(self, now_ns: int) -> int:
        since = [state.waits_ns for state in self._ranks.states.values() if state.waits and state.waits_ns is not None]
        return (now_ns - min(since)) // 1_000_000 if since else -1

    def _tell(self, now_ns: int) -> None:
        whole = self._whole(now_ns)
        leads = self.role is Role.LEADS
        columns = whole and not leads
        told = digest_of(now_ns, self._ranks, deaths=self._deaths, over=self._over, whole=columns)
        told = structs.replace(told, pace=self._pace, calls=list(self._calls))
        turn = digests.change_key(told)
        if turn != self._turn[1]:
            self._turn = (self._turn[0] + 1, turn)
        self._word = structs.replace(self._word, at_ns=now_ns, whole=whole)
        self._errands.put(
            TransportRequest(
                hello=digests.encode_digest(self._current_hello(now_ns)),
                digest=digests.encode_digest(told),
                word=leader_messages.encode_message(self._word) if leads else b"",
                said=self._said if leads else b"",
                leads=leads,
                hurry=whole,
                turn=self._turn[0],
                leader=self.leader,
                pack=self._packed,
                pack_path=str(self.pack_path),
                wanted=self._wanted[0],
                wanted_nodes=self._wanted[1],
                arrival_path=str(self.arrival_path),
                probe=[node.number for node in self.roster.met() if node.quiet_s(now_ns) > QUIET_S][
                    : node_selection.MAX_ASKED
                ],
                leave=self._leaving,
            )
        )

    def _whole(self, now_ns: int) -> bool:
        """Whether each rank is worth telling of now."""
        waits = self._waited_ms(now_ns) >= COLUMNS_AFTER_MS or self._leader_wants_columns()
        if self.role is Role.LEADS:
            waits = (
                waits
                or self.watched
                or any(
                    node.digest is not None
                    and node.digest.waits_ms >= COLUMNS_AFTER_MS
                    and node.silent_s(now_ns) is None
                    for node in self.roster.all()
                )
            )
        if waits:
            self._columns_until = time.monotonic() + COLUMNS_FOR_S
        return time.monotonic() < self._columns_until

    def _leader_wants_columns(self) -> bool:
        if self.role is not Role.FOLLOWS or self.news is None:
            return False
        words = (leader_messages.read_leader_message(h.value) for h in self.news.words if h.node == self.leader)
        return (word := next(words, None)) is not None and word.whole

    def _current_hello(self, now_ns: int) -> NodeHello:
        address = self.news.address if self.news is not None else ""
        self._hello = digests.hello_of(self._hello, self.name, address, self._folder, self._ranks, now_ns)
        return self._hello
