"""What the watcher does because there are other nodes: judge for all, obey, show what the leader said.

Everything is as without this file where the start is on one machine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.records.record_views import RankIdentity, RecordView
from unhang.watch import private_files, saved_sample
from unhang.watch.job.job_ranks import JobRank, JobRanks
from unhang.watch.job.wait_detection import RankSample, WaitSnapshot
from unhang.watch.nodes import node_announcements
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.evidence_gathering import AFTER_OURS_S, AFTER_STACKS_S, AT_THE_END_S, EvidenceGathering
from unhang.watch.nodes.leader_election import Role
from unhang.watch.nodes.leader_messages import LeaderVerdict
from unhang.watch.nodes.live_columns import with_remote_ranks
from unhang.watch.nodes.transport.evidence_parts import EXIT_EVIDENCE_NUMBER
from unhang.watch.pace.pace_over_nodes import SlowestRank
from unhang.watch.reporting import announcements
from unhang.watch.reporting.live_snapshot import LiveState
from unhang.watch.reporting.verdict_summary import VerdictLevel, VerdictSummary
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.watch.verdict.evidence_request import EvidenceRequest

if TYPE_CHECKING:
    from unhang.watch.watcher import Watcher

MAX_REMOTE_SAMPLES = 256
"""So many ranks of other nodes are looked at one by one."""
LEADER_REQUEST_LIMIT_S = 4.0
"""After a command that failed: so long the leader's may take to fail too, and ask."""
LEAVING_S = 1.0
MAX_PACE_SAMPLES = 8
PACE_SAMPLE_LIMIT_S = 8.0
"""So much longer samples of a job that moves may take on another node."""


class LeaderTasks:
    """Multi-node work of one watcher: judge for all nodes as leader, else serve the leader's requests."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.cluster: ClusterView | None = None
        with suppress(OSError):
            self.cluster = ClusterView.of_run(watcher.plan, watcher.folder.path, watcher.records)
        self._leader_numbers: dict[int, int] = {}
        """Our own number of a sample → the leader's."""
        self._lines = node_announcements.NodeAnnouncements()
        self._heard: LeaderVerdict | None = None
        self._checked = 0

    @property
    def is_urgent(self) -> bool:
        """Another node judges, and somebody waits."""
        return self.cluster is not None and self.cluster.role is Role.FOLLOWS and self.cluster.is_urgent

    def judge(self, now_ns: int, samples: Mapping[int, RankSample]) -> WaitSnapshot | None:
        """Who waits for whom; None where another node says it."""
        watcher = self._watcher
        states = watcher.detector.rank_states(now_ns, samples)
        if self.cluster is None:
            return watcher.detector.judge(now_ns, states)
        self.cluster.watched, judged = watcher.observers.wanted(), self.cluster.gives_verdicts
        pace, calls = watcher.moving.stragglers.told, watcher.moving.call_digests
        self.cluster.tick(now_ns, samples, states, deaths=watcher.members.deaths, pace=pace, calls=calls)
        for line in self._lines.due(self.cluster):
            watcher.folder.say(announcements.line(line))
        if judged and not self.cluster.gives_verdicts:
            watcher.hand_over()
        return self.cluster.judge(watcher.detector, now_ns, states)

    def follow(self) -> None:
        """Do what the leader asks, and show what it said."""
        if self.cluster is None:
            return
        wanted = self.cluster.take_sample_request()
        if wanted is not None:
            since_s = time.time() - (time.monotonic_ns() - wanted.since_ns) / 1e9 if wanted.since_ns >= 0 else None
            order = self._watcher.next_request(since_s, with_stacks=wanted.with_stacks, live=wanted.live)
            if wanted.samples:
                order = self._watcher.moving.as_pace_request(order, min(wanted.samples, MAX_PACE_SAMPLES))
            self._leader_numbers[order.number] = wanted.number
            self._watcher.begin(order, pack_for=self.cluster.pack_path)
        said = self.cluster.take_leader_verdict()
        if said is not None:
            self._hear(said)

    def _hear(self, said: LeaderVerdict) -> None:
        watcher, summary = self._watcher, said.to_summary()
        if summary is None:
            return
        if said.ended:
            if self._heard is not None:
                self._heard = watcher.said = None
                watcher.folder.say(announcements.stall_over_line(summary))
                watcher.totals.note_stall_over(summary.cause)
                saved_sample.discard(watcher.folder.path)
            return
        before, self._heard = self._heard, said
        if said.verdict:
            with suppress(OSError):
                private_files.write_atomically(watcher.folder.verdict, said.verdict)
        watcher.said = summary
        if before is None or before.to_summary() is None or before.to_summary() != summary:
            watcher.folder.say(
                announcements.line(node_announcements.leader_verdict_line(said, summary, watcher.plan.lang))
            )
            watcher.totals.found(summary.cause)
        if said.abort and watcher.plan.on_hang == "abort" and watcher.abort is None:
            watcher.end_job(summary)

    def was_for_leader(self, child: DiagnosisChild) -> bool:
        """Whether ``child`` took evidence for the leader; then it is on its way."""
        number = self._leader_numbers.pop(child.number, None)
        if number is None or self.cluster is None:
            return number is not None
        self.cluster.announce_evidence(number)
        return True

    def ask(self, order: EvidenceRequest, snapshot: WaitSnapshot | None) -> EvidenceRequest:
        """``order``, with the evidence of the other nodes on its way where it is ours to judge for all."""
        cluster = self.cluster
        if cluster is None or cluster.role is not Role.LEADS or not cluster.roster.met():
            return order
        _make_empty(cluster.arrival_path)
        asked = cluster.request_evidence(order.number, snapshot, with_stacks=order.with_stacks, live=order.live)
        dying = not order.live or cluster.roster.died_ns() > 0
        limit_s = AT_THE_END_S if dying else AFTER_STACKS_S if order.with_stacks else AFTER_OURS_S
        return _with_remote_evidence(order, cluster, asked, limit_s)

    def slowest(self, samples: Mapping[int, RankSample]) -> SlowestRank | None:
        """The rank that holds all ranks of all nodes up, when it is time to sample it."""
        stragglers, cluster = self._watcher.moving.stragglers, self.cluster
        if cluster is None:
            return stragglers.add(samples)
        return stragglers.add(samples, cluster.paces(), judges=cluster.gives_verdicts)

    def with_remote_pace(self, order: EvidenceRequest, slow: SlowestRank) -> EvidenceRequest:
        """``order``, a sample of a job that moves, with what another node has to tell of it."""
        cluster = self.cluster
        paces = cluster.paces() if cluster is not None and cluster.role is Role.LEADS else None
        if cluster is None or not paces:
            return order
        least = {told.rank: told.waits / 100 for told in paces.values() if told is not None}
        order = replace(order, pace=self._watcher.moving.stragglers.record.document(least))
        _make_empty(cluster.arrival_path)
        return _with_remote_evidence(
            order, cluster, cluster.request_pace(order.number, slow, samples=order.samples), PACE_SAMPLE_LIMIT_S
        )

    def nodes_with_other_calls(self, checks: int) -> list[int]:
        """Nodes whose ranks called something else than others, once after each of our ``checks``."""
        nodes = self.cluster.nodes_with_other_calls() if self.cluster is not None and checks != self._checked else []
        if nodes:
            self._checked = checks
        return nodes

    def with_remote_calls(self, order: EvidenceRequest, nodes: list[int]) -> EvidenceRequest:
        """``order``, with the dumps of those nodes, and all of them compared."""
        assert self.cluster is not None
        _make_empty(self.cluster.arrival_path)
        order = _with_remote_evidence(
            order, self.cluster, self.cluster.request_calls(order.number, nodes), PACE_SAMPLE_LIMIT_S
        )
        assert order.nodes is not None
        return replace(order, with_stacks=True, nodes=replace(order.nodes, compare=True))

    def say(self, summary: VerdictSummary, *, abort: bool = False) -> None:
        """The verdict that was just printed, for the other nodes."""
        if self.cluster is None:
            return
        verdict = b""
        with suppress(OSError):
            verdict = self._watcher.folder.verdict.read_bytes()
        self.cluster.say(summary, verdict, abort=abort)

    def over(self, summary: VerdictSummary) -> None:
        """The wait that ``summary`` reported has ended by itself."""
        if self.cluster is not None:
            self.cluster.say(summary, b"", ended=True)

    def died_ns(self) -> int:
        """When a rank of another node died last, as far as we heard and lead; 0 where none did."""
        cluster = self.cluster
        return cluster.roster.died_ns() if cluster is not None and cluster.role is Role.LEADS else 0

    def in_doubt(self) -> bool:
        """A node has just fallen quiet: what a sample found without it may be wrong in a moment."""
        cluster = self.cluster
        return cluster is not None and cluster.role is Role.LEADS and cluster.in_doubt

    def was_reported_before(self, summary: VerdictSummary) -> bool:
        """Whether the node that led before us has said just this."""
        before = self._heard.to_summary() if self._heard is not None else None
        return before is not None and before.identity_key == summary.identity_key

    def samples(self, snapshot: WaitSnapshot | None, samples: Mapping[int, RankSample]) -> Mapping[int, RankSample]:
        """``samples``, and those of ranks of other nodes that matter now."""
        if self.cluster is None or snapshot is None:
            return samples
        matter = [
            rank for rank in (*snapshot.laggards[:MAX_REMOTE_SAMPLES], snapshot.waiters[0]) if rank not in samples
        ]
        return {**samples, **self.cluster.samples(matter)}

    def members(self, snapshot: WaitSnapshot) -> JobRanks:
        """All ranks of all nodes as lines need them."""
        own = self._watcher.members
        if self.cluster is None:
            return own
        ranks = [rank for rank in snapshot.doing if rank not in own.by_rank]
        return JobRanks(own.records, {**own.by_rank, **self.cluster.members(ranks)})

    def all_ranks(self) -> JobRanks:
        """Our ranks, and those that other nodes watch or watched."""
        own = self._watcher.members
        if self.cluster is None:
            return own
        others = (node.ranks for node in self.cluster.roster.met())
        return JobRanks(
            own.records,
            {**_placeholder_ranks(rank for ranks in others for rank in ranks), **own.by_rank},
            own.registrations,
        )

    def live(self, state: LiveState) -> LiveState:
        """``state`` with the ranks of all nodes."""
        return with_remote_ranks(state, self.cluster.roster) if self.cluster is not None else state

    def wait_for_leader_verdict(self) -> bool:
        """After our command failed: wait some seconds for the leader's verdict. Whether it came."""
        cluster, watcher = self.cluster, self._watcher
        if cluster is None:
            return False
        deadline = time.monotonic() + LEADER_REQUEST_LIMIT_S
        while time.monotonic() < deadline:
            self.judge(time.monotonic_ns(), watcher.members.samples())
            if cluster.role is not Role.FOLLOWS:
                return self._leader_reported_failure
            self.follow()
            if watcher.child is not None and watcher.child.number in self._leader_numbers:
                watcher.child.wait()
                child, watcher.child = watcher.child, None
                self.was_for_leader(child)
                deadline = time.monotonic() + AT_THE_END_S
            if self._leader_reported_failure:
                return True
            time.sleep(0.1)
        return self._leader_reported_failure

    @property
    def _leader_reported_failure(self) -> bool:
        summary = self._heard.to_summary() if self._heard is not None else None
        if self._heard is None or summary is None:
            return False
        return self._heard.abort or summary.level in (VerdictLevel.CRASH.value, VerdictLevel.STALL.value)

    def leave(self, *, failed: bool) -> None:
        """Send the last state, and our evidence where the command ``failed``; then leave."""
        cluster, watcher = self.cluster, self._watcher
        if cluster is None:
            return
        if failed and cluster.role is Role.FOLLOWS:
            from unhang.watch.nodes.transport.evidence_pack import pack_evidence

            with suppress(OSError):
                pack_evidence(watcher.folder.path, cluster.pack_path)
                cluster.announce_evidence(EXIT_EVIDENCE_NUMBER)
        cluster.end(well=not failed, wait_s=LEAVING_S)


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        private_files.make_folder(folder)


def _with_remote_evidence(
    order: EvidenceRequest, cluster: ClusterView, asked: list[int], limit_s: float
) -> EvidenceRequest:
    return replace(order, nodes=EvidenceGathering(cluster.arrival_path, cluster.nodes_at_sample(asked), limit_s))


def _placeholder_ranks(ranks: Iterable[int]) -> dict[int, JobRank]:
    return {rank: JobRank(rank, -1, RecordView(RankIdentity(rank=rank))) for rank in ranks}
