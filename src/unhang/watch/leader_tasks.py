"""What there is to do because of other nodes: judge for all, ask for their evidence, show what the leader said.

Everything is as without this file where the start is on one machine (``cluster`` is None).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from unhang.sentences import Text
from unhang.watch.job.job_ranks import JobRank, JobRanks
from unhang.watch.job.wait_detection import RankSample, WaitSnapshot
from unhang.watch.moving_job import MovingJob, StragglerWatch
from unhang.watch.nodes import node_announcements
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.evidence_gathering import AFTER_OURS_S, AFTER_STACKS_S, AT_THE_END_S, EvidenceGathering
from unhang.watch.nodes.leadership import LeaderVerdict, Role, SampleRequest
from unhang.watch.nodes.live_columns import with_remote_ranks
from unhang.watch.nodes.node_roster import nodes_for_pace
from unhang.watch.nodes.transport.evidence_parts import EXIT_EVIDENCE_NUMBER
from unhang.watch.pace.pace_over_nodes import SlowestRank
from unhang.watch.verdict.evidence_request import EvidenceRequest
from unhang.wire.documents.live_state import LiveState
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary
from unhang.wire.record_views import RankIdentity, RecordView

MAX_REMOTE_SAMPLES = 256
"""So many ranks of other nodes are looked at one by one."""
LEAVING_S = 1.0
PACE_SAMPLE_LIMIT_S = 8.0
"""So much longer samples of a job that moves may take on another node."""


@dataclass(slots=True)
class LeaderTasks:
    """Beside the view of the cluster: what was heard of the leader, and what was asked of the others."""

    cluster: ClusterView | None = None
    heard: LeaderVerdict | None = None
    """The leader's last verdict, while its wait goes on."""
    _lines: node_announcements.NodeAnnouncements = field(default_factory=node_announcements.NodeAnnouncements)
    _checked: int = 0

    @property
    def is_urgent(self) -> bool:
        """Another node judges, and somebody waits."""
        return self.follows and self.cluster is not None and self.cluster.is_urgent

    @property
    def follows(self) -> bool:
        """Another node leads."""
        return self.cluster is not None and self.cluster.role is Role.FOLLOWS

    @property
    def leader_keeps_history(self) -> bool:
        """Another node's watcher records the run: it knows every host, and has the verdict."""
        return self.follows or (self.cluster is not None and self.cluster.leader_left)

    @property
    def other_hosts(self) -> list[str]:
        """The other nodes, where we lead."""
        met = self._leading.roster.met() if self._leading is not None else []
        return [node.hello.name for node in met if node.hello is not None]

    @property
    def _leading(self) -> ClusterView | None:
        return self.cluster if self.cluster is not None and self.cluster.role is Role.LEADS else None

    def lines(self) -> Iterator[Text]:
        """What is to be said of the other nodes now."""
        if self.cluster is not None:
            yield from self._lines.due(self.cluster)

    @property
    def heard_summary(self) -> VerdictSummary | None:
        """The leader's last verdict, while its wait goes on."""
        return self.heard.summary if self.heard is not None else None

    @property
    def leader_explained_failure(self) -> bool:
        """What the leader said last is why the job ends."""
        summary = self.heard_summary
        if self.heard is None or summary is None:
            return False
        return self.heard.abort or summary.level in (VerdictLevel.CRASH.value, VerdictLevel.STALL.value)

    def ask(self, request: EvidenceRequest, snapshot: WaitSnapshot | None) -> EvidenceRequest:
        """``request``, with the evidence of the other nodes on its way where it is ours to judge for all."""
        cluster = self._leading
        if cluster is None or not cluster.roster.met():
            return request
        asked = cluster.request_evidence(request.number, snapshot, with_stacks=request.with_stacks, live=request.live)
        dying = not request.live or cluster.roster.died_ns() > 0
        limit_s = AT_THE_END_S if dying else AFTER_STACKS_S if request.with_stacks else AFTER_OURS_S
        return _with_remote_evidence(request, cluster, asked, limit_s)

    def slowest(self, moving: MovingJob, samples: Mapping[int, RankSample]) -> SlowestRank | None:
        """The rank that holds all ranks of all nodes up, when it is time to sample it."""
        if self.cluster is None:
            return moving.stragglers.add(samples) or moving.take_late_rank()
        return moving.stragglers.add(samples, self.cluster.paces(), judges=self.cluster.gives_verdicts)

    def with_remote_pace(
        self, request: EvidenceRequest, slow: SlowestRank, stragglers: StragglerWatch
    ) -> EvidenceRequest:
        """``request``, a sample of a job that moves, with what another node has to tell of it."""
        cluster = self._leading
        paces = cluster.paces() if cluster is not None else None
        if cluster is None or not paces:
            return request
        least = {told.rank: told.waits / 100 for told in paces.values() if told is not None}
        request = replace(request, machine={**request.machine, "pace.json": stragglers.record.pace(least).json()})
        nodes = nodes_for_pace(cluster.roster, slow, time.monotonic_ns())
        asked = cluster.ask(nodes, SampleRequest(request.number, -1, nodes=nodes or [-1], samples=request.samples))
        return _with_remote_evidence(request, cluster, asked, PACE_SAMPLE_LIMIT_S)

    def nodes_with_other_calls(self, checks: int) -> list[int]:
        """Nodes whose ranks called something else than others, once after each of our ``checks``."""
        nodes = self.cluster.nodes_with_other_calls() if self.cluster is not None and checks != self._checked else []
        if nodes:
            self._checked = checks
        return nodes

    def with_remote_calls(self, request: EvidenceRequest, nodes: Sequence[int]) -> EvidenceRequest:
        """``request``, with the dumps of those nodes, and all of them compared."""
        if self.cluster is None or not nodes:
            return request
        asked = self.cluster.ask([*nodes], SampleRequest(request.number, -1, nodes=[*nodes]))
        request = _with_remote_evidence(request, self.cluster, asked, PACE_SAMPLE_LIMIT_S)
        assert request.nodes is not None
        return replace(request, nodes=replace(request.nodes, compare=True))

    def say(self, summary: VerdictSummary, verdict: Path, *, abort: bool = False) -> None:
        """The verdict that was just printed, and its file, for the other nodes."""
        if self.cluster is None:
            return
        content = b""
        with suppress(OSError):
            content = verdict.read_bytes()
        self.cluster.say(summary, content, abort=abort)

    def over(self, summary: VerdictSummary) -> None:
        """The wait that ``summary`` reported has ended by itself."""
        if self.cluster is not None:
            self.cluster.say(summary, b"", ended=True)

    def died_ns(self) -> int:
        """When a rank of another node died last, as far as we heard and lead; 0 where none did."""
        return self._leading.roster.died_ns() if self._leading is not None else 0

    def in_doubt(self) -> bool:
        """A node has just fallen quiet: what a sample found without it may be wrong in a moment."""
        return self._leading is not None and self._leading.in_doubt

    def was_reported_before(self, summary: VerdictSummary) -> bool:
        """Whether the node that led before us has said just this."""
        before = self.heard_summary
        return before is not None and before.identity_key == summary.identity_key

    def samples(self, snapshot: WaitSnapshot | None, samples: Mapping[int, RankSample]) -> Mapping[int, RankSample]:
        """``samples``, and those of ranks of other nodes that matter now."""
        if self.cluster is None or snapshot is None:
            return samples
        matter = [
            rank for rank in (*snapshot.laggards[:MAX_REMOTE_SAMPLES], snapshot.waiters[0]) if rank not in samples
        ]
        return {**samples, **self.cluster.samples(matter)}

    def members(self, own: JobRanks, snapshot: WaitSnapshot) -> JobRanks:
        """All ranks of all nodes as lines need them."""
        if self.cluster is None:
            return own
        found = self.cluster.samples(rank for rank in snapshot.doing if rank not in own.by_rank)
        others = {rank: JobRank(rank, sample.view.identity.pid, sample.view) for rank, sample in found.items()}
        return JobRanks(own.records, {**own.by_rank, **others})

    def all_ranks(self, own: JobRanks) -> JobRanks:
        """Our ranks, and those that other nodes watch or watched."""
        if self.cluster is None:
            return own
        others = _placeholder_ranks(rank for node in self.cluster.roster.met() for rank in node.ranks)
        return JobRanks(own.records, {**others, **own.by_rank}, own.registrations)

    def live(self, state: LiveState) -> LiveState:
        """``state`` with the ranks of all nodes."""
        return with_remote_ranks(state, self.cluster.roster) if self.cluster is not None else state

    def leave(self, folder: Path, *, failed: bool) -> None:
        """Send the last state, and our evidence where the command ``failed``; then leave."""
        if self.cluster is None:
            return
        if failed and self.follows:
            from unhang.watch.nodes.transport.evidence_pack import pack_evidence

            with suppress(OSError):
                pack_evidence(folder, self.cluster.pack_path)
                self.cluster.announce_evidence(EXIT_EVIDENCE_NUMBER)
        self.cluster.end(well=not failed, wait_s=LEAVING_S)


def _with_remote_evidence(
    request: EvidenceRequest, cluster: ClusterView, asked: list[int], limit_s: float
) -> EvidenceRequest:
    return replace(request, nodes=EvidenceGathering(cluster.arrival_path, cluster.nodes_at_sample(asked), limit_s))


def _placeholder_ranks(ranks: Iterable[int]) -> dict[int, JobRank]:
    return {rank: JobRank(rank, -1, RecordView(RankIdentity(rank=rank))) for rank in ranks}
