"""The other nodes as this node's watcher sees them: it tells them of its ranks, and leads, follows or is alone.

Nothing here waits: the transport does that. A leader judges the ranks of all nodes and gives the verdict; the others
tell, take evidence when they are asked to, and show the verdict.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec import msgpack, structs

from unhang.watch import private_files
from unhang.watch.job.wait_detection import SAME_WAIT_NS, RankSample, RankState, WaitDetector, WaitSnapshot
from unhang.watch.nodes import leadership, node_roster
from unhang.watch.nodes import rank_digest as digests
from unhang.watch.nodes.leadership import LeaderMessage, LeaderVerdict, Role, SampleRequest, elect_role
from unhang.watch.nodes.node_roster import QUIET_S, NodeRoster, RemoteNode, remote_sample
from unhang.watch.nodes.rank_digest import NodeHello, NodeRanks, clock_ahead_s, digest_of
from unhang.watch.nodes.transport import mailbox
from unhang.watch.nodes.transport.exchange_opener import TransportConfig
from unhang.watch.nodes.transport.node_discovery import JobNodes, discover_nodes, node_name
from unhang.watch.nodes.transport.transport_main import write_config
from unhang.watch.pace.call_drift import CallDigest, differing_nodes
from unhang.watch.pace.pace_over_nodes import NodePace
from unhang.watch.side_process import KeptProcess
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.documents.other_nodes import ObservedNode
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictSummary

COLUMNS_AFTER_MS = 400
"""A rank that has waited so long is worth telling of each rank."""
COLUMNS_FOR_S = 3.0
"""Columns are wanted for so long after the last wait: waits come in rows."""
LEAVE_LIMIT_S = 2.0
"""Seconds for which the transport is waited for when it takes away what is left."""


class ClusterView:
    """What one node's watcher knows of the other nodes, and tells them."""

    def __init__(self, job_nodes: JobNodes, name: str, folder: Path, records: Path, lang: str = "en") -> None:
        self.job_nodes, self.name, self._folder = job_nodes, name, folder
        self.roster = NodeRoster()
        self.role, self.leader = Role.UNDECIDED, -1
        self._requests, self._states = mailbox.request_mailbox(records), mailbox.state_mailbox(records)
        self._started_ns = time.monotonic_ns()
        self._process = KeptProcess(
            ["unhang.watch.nodes.transport.transport_main", str(records)],
            folder / ".unhang" / "carrier.log",
            {**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL", "OMP_NUM_THREADS": "1"},
        )
        self._ranks = NodeRanks({}, {})
        self._hello: NodeHello | None = None
        self._turn: tuple[int, object] = (0, None)
        self._word = LeaderMessage(0)
        self._said = b""
        self._said_number = self._heard_number = 0
        self._last_request = self._packed = 0
        self._wanted: tuple[int, list[int]] = (0, [])
        self._columns_until = 0.0
        self._deaths = self._over = 0
        self._pace: NodePace | None = None
        self._calls: Sequence[CallDigest] = ()
        self._leaving = False
        self.in_doubt = False
        """A node has just fallen quiet: a verdict now would be early."""
        self._snapshot: WaitSnapshot | None = None
        """Of all nodes, as it was judged last."""
        self.watched = False
        """Somebody watches the run: every rank of every node is wanted."""
        self._states.drop()  # an earlier watcher's: it says nothing of now
        write_config(records, TransportConfig(job_nodes, name, str(folder), lang, time.time_ns()))

    @classmethod
    def of_run(cls, plan: RunPlan, folder: Path, records: Path) -> ClusterView | None:
        """None for a job on one node. Raises OSError where the transport's configuration cannot be written."""
        job_nodes = discover_nodes(os.environ, plan.command, plan.nodes_via)
        return cls(job_nodes, node_name(os.environ), folder, records, plan.lang) if job_nodes is not None else None

    @property
    def transport(self) -> mailbox.TransportState | None:
        """Last state the transport reported."""
        return self._states.last

    @property
    def is_urgent(self) -> bool:
        """Somebody waits, here or elsewhere."""
        return time.monotonic() < self._columns_until

    @property
    def gives_verdicts(self) -> bool:
        """This node gives verdicts: for all, or for itself alone."""
        return self.role in (Role.LEADS, Role.ALONE)

    def tick(
        self,
        now_ns: int,
        samples: Mapping[int, RankSample],
        states: Mapping[int, RankState],
        *,
        deaths: int,
        pace: NodePace | None = None,
        calls: Sequence[CallDigest] = (),
    ) -> None:
        """Read the transport's state and send our digest."""
        if deaths > self._deaths:
            self._columns_until = time.monotonic() + COLUMNS_FOR_S  # the leader should hear of it at once
        self._ranks, self._deaths = NodeRanks(samples, states), deaths
        self._pace, self._calls = pace, calls
        if self._states.refresh() and self.transport is not None:
            self.roster.take(self.transport)
        self.role, self.leader = elect_role(self.transport, self._started_ns)
        self._process.keep(self.transport.at_ns if self.transport is not None else None)
        self._tell(now_ns)

    def judge(self, detector: WaitDetector, now_ns: int, states: Mapping[int, RankState]) -> WaitSnapshot | None:
        """Who waits for whom, on all nodes where we lead; None where nobody waits, or where it is not ours to say."""
        if self.role is Role.ALONE or (self.role is Role.LEADS and not self.roster.met()):
            return detector.judge(now_ns, states)
        if self.role is not Role.LEADS:
            self._snapshot = None
            return None
        if not (self.roster.somebody_waits() or self._ranks.waited_ms(now_ns) >= 0):
            self._snapshot = detector.judge(now_ns, {})
        else:
            every = {**self.roster.states(now_ns), **states}
            early = self._is_too_early(now_ns, every)
            self._snapshot = self._held_snapshot(now_ns, every) if early else detector.judge(now_ns, every)
        return self._snapshot

    def _is_too_early(self, now_ns: int, every: Mapping[int, RankState]) -> bool:
        """Nodes that just fell quiet, or did not tell of their ranks just now, may hold whoever is to blame."""
        nodes = self.roster.met()
        quiet = node_roster.newly_quiet(nodes, self.answers, now_ns)
        self.in_doubt = node_roster.could_change_blame(quiet, nodes, every)
        return self.in_doubt or node_roster.could_change_blame(self.roster.without_fresh_columns(now_ns), nodes, every)

    def _held_snapshot(self, now_ns: int, every: Mapping[int, RankState]) -> WaitSnapshot | None:
        """The last snapshot, continued while a node that fell quiet leaves open who is late; None where its wait
        ended."""
        known = self._snapshot
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
            sample = remote_sample(node, rank) if node is not None else None
            if sample is not None:
                found[rank] = sample
        return found

    def paces(self) -> dict[int, NodePace | None] | None:
        """How the others get on in a job that moves; None where this node is alone."""
        alone = self.role is Role.ALONE or (self.role is Role.LEADS and not self.roster.met())
        return None if alone else self.roster.paces(time.monotonic_ns()) if self.role is Role.LEADS else {}

    def nodes_with_other_calls(self) -> list[int]:
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

    def request_evidence(
        self, number: int, snapshot: WaitSnapshot | None, *, with_stacks: bool, live: bool = True
    ) -> list[int]:
        """Ask for evidence; returns the nodes it will come from."""
        nodes = node_roster.nodes_for_stall(self.roster, snapshot, time.monotonic_ns())
        since_ns = snapshot.since_ns if snapshot is not None else -1
        few = nodes if len(nodes) < len(self.roster.met()) else []
        return self.ask(nodes, SampleRequest(number, since_ns, with_stacks, live, few))

    def ask(self, nodes: list[int], request: SampleRequest) -> list[int]:
        """``request``, and the same for its answers from ``nodes``; returns these."""
        shutil.rmtree(self.arrival_path, ignore_errors=True)
        with suppress(OSError):
            private_files.make_folder(self.arrival_path)
        self._word = structs.replace(self._word, request=request)
        self._wanted = (request.number, nodes)
        self._tell(time.monotonic_ns())
        return nodes

    def nodes_at_sample(self, asked: Iterable[int]) -> tuple[ObservedNode, ...]:
        """Every other node, as it is when a sample begins."""
        now_ns, ours = time.monotonic_ns(), self._hello
        wanted = set(asked)
        return tuple(
            ObservedNode(
                number=node.number,
                name=node.name,
                host=node.hello.host if node.hello is not None else "",
                ranks=tuple(node.ranks),
                silent_s=node.silent_s(now_ns),
                answers=self.answers(node.number),
                answered=self.transport is not None and node.number in self.transport.answered,
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
        node = self.roster.nodes.get(number)
        answer = self.transport.answers.get(number) if self.transport is not None else None
        if answer is None or (node is not None and answer[0] - node.heard_ns < QUIET_S * 1e9):
            return None  # asked before its watcher fell silent: that tells nothing of now
        return answer[1]

    def take_sample_request(self) -> SampleRequest | None:
        """A sample the leader asks for, once each; its time is turned into ours."""
        heard = self._from_leader(self.transport.words) if self.transport is not None else None
        if self.transport is None or heard is None or self.role is not Role.FOLLOWS:
            return None
        word = digests.decoded(heard.value, LeaderMessage)
        if word is None or word.request is None or word.request.number == self._last_request:
            return None
        request = word.request
        self._last_request = request.number
        if request.nodes and self.transport.seat not in request.nodes:
            return None
        since_ns = heard.heard_ns - (word.at_ns - request.since_ns) if request.since_ns >= 0 else -1
        return structs.replace(request, since_ns=since_ns)

    def announce_evidence(self, number: int) -> None:
        """Evidence for the leader's sample ``number`` lies in :attr:`pack_path`."""
        self._packed = number
        self._tell(time.monotonic_ns())

    @property
    def leader_left(self) -> bool:
        """Whoever led before left in order: its command has ended."""
        if self.transport is None:
            return False
        earlier = [word for word in self.transport.words if word.node < self.transport.seat]
        words = (digests.decoded(word.value, LeaderMessage) for word in earlier)
        return any(word is not None and word.over for word in words)

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
        content = verdict if len(verdict) <= leadership.MAX_TEXT else b""
        said = LeaderVerdict(self._said_number, self.name, str(self._folder), summary, content, ended, abort)
        self._said = msgpack.encode(said)
        self._word = structs.replace(self._word, said=self._said_number)
        self._tell(time.monotonic_ns())

    def take_leader_verdict(self) -> LeaderVerdict | None:
        """A verdict of the leader that was not heard yet."""
        heard = self._from_leader(self.transport.said) if self.transport is not None else None
        if heard is None or self.role is not Role.FOLLOWS or heard.heard_ns == self._heard_number:
            return None
        self._heard_number = heard.heard_ns
        return digests.decoded(heard.value, LeaderVerdict)

    def end(self, *, well: bool, wait_s: float = 0.5) -> None:
        """The command is over: tell so, and leave."""
        self._over = 1 if well else 2
        self._word = structs.replace(self._word, over=True)
        self._tell(time.monotonic_ns())
        if self.transport is not None and self.transport.met:
            time.sleep(wait_s)
            self._leave()
        self._process.end()

    def _leave(self) -> None:
        self._leaving = True
        self._tell(time.monotonic_ns())
        deadline = time.monotonic() + LEAVE_LIMIT_S
        while time.monotonic() < deadline:
            self._states.refresh()
            if self.transport is None or self.transport.left or not self.transport.met:
                return
            time.sleep(0.02)

    def _tell(self, now_ns: int) -> None:
        whole = self._wants_columns(now_ns)
        leads = self.role is Role.LEADS
        columns = whole and not leads
        told = digest_of(now_ns, self._ranks, deaths=self._deaths, over=self._over, whole=columns)
        told = structs.replace(told, pace=self._pace, calls=list(self._calls))
        turn = digests.change_key(told)
        if turn != self._turn[1]:
            self._turn = (self._turn[0] + 1, turn)
        self._word = structs.replace(self._word, at_ns=now_ns, whole=whole)
        self._requests.put(
            mailbox.TransportRequest(
                hello=msgpack.encode(self._current_hello(now_ns)),
                digest=msgpack.encode(told),
                word=msgpack.encode(self._word) if leads else b"",
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
                    : node_roster.MAX_ASKED
                ],
                leave=self._leaving,
            )
        )

    def _wants_columns(self, now_ns: int) -> bool:
        """Whether each rank is worth telling of now."""
        waits = self._ranks.waited_ms(now_ns) >= COLUMNS_AFTER_MS or self._leader_wants_columns()
        if self.role is Role.LEADS:
            waits = (
                waits
                or self.watched
                or any(node.has_waited(COLUMNS_AFTER_MS, now_ns) for node in self.roster.nodes.values())
            )
        if waits:
            self._columns_until = time.monotonic() + COLUMNS_FOR_S
        return time.monotonic() < self._columns_until

    def _leader_wants_columns(self) -> bool:
        if self.role is not Role.FOLLOWS or self.transport is None:
            return False
        heard = self._from_leader(self.transport.words)
        word = digests.decoded(heard.value, LeaderMessage) if heard is not None else None
        return word is not None and word.whole

    def _from_leader(self, values: Iterable[mailbox.ReceivedValue]) -> mailbox.ReceivedValue | None:
        return next((value for value in values if value.node == self.leader), None)

    def _current_hello(self, now_ns: int) -> NodeHello:
        address = self.transport.address if self.transport is not None else ""
        self._hello = digests.hello_of(self._hello, self.name, address, self._ranks, now_ns)
        return self._hello
