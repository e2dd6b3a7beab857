"""Ranks and nodes that are not there, for ``many_nodes``: what they say is made up, how they say it is the real thing.

    python -m benchmarks.simulated_nodes ranks JOB.json NUMBER      in the place of torchrun, under a real `unhang run`
    python -m benchmarks.simulated_nodes nodes JOB.json FIRST LAST  whole nodes, many in a process

``ranks`` keeps eight records as eight training processes would, four beats a second, and answers requests for dumps.
``nodes`` speaks for each node through a connection of its own, with the digests, seals and evidence a watcher and its
carrier would send, at their pace; it runs no watcher. All clocks are this machine's, so a stall
begins everywhere at once.
"""

from __future__ import annotations

import heapq
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from msgspec.msgpack import encode

from unhang.watch.job.wait_detection import RankSample, RankState
from unhang.watch.nodes.leadership import LeaderMessage
from unhang.watch.nodes.rank_digest import NodeHello, NodeRanks, decoded, digest_of
from unhang.watch.nodes.transport.evidence_pack import pack_evidence
from unhang.watch.nodes.transport.evidence_parts import send_evidence
from unhang.watch.nodes.transport.exchange_opener import MAX_LEADERS, ExchangeOpener, TransportConfig
from unhang.watch.nodes.transport.key_value_exchange import ExchangeError, KeyValueExchange, SignedValues
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.watch.nodes.transport.transport_main import CALM_S, HELLOS_S, HURRY_S
from unhang.watch.process_state.py_spy import recorded_stack
from unhang.wire.control import Control
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.record import RecordWriter, record_path
from unhang.wire.record_views import CodeLine, GroupProgress, RankIdentity, RecordView
from unhang_lab.dump_writer import StalledJob, pickle_like_torch

PER_NODE = 8
BEAT_S, STEP_S = 0.25, 1.0
ENTRIES = 2_000
PROGRAM = "/opt/job/train.py"
WAITS = ("communication", CodeLine(PROGRAM, 97, "train"), "all_reduce")
LATE = ("other", CodeLine(PROGRAM, 41, "load_shard"), "sleep")
PACKED = 40
"""So many nodes have evidence at hand, and the one of the late rank; a leader asks 32."""


@dataclass(frozen=True, slots=True)
class Job:
    """``begin_s``, ``stall_s``: monotonic, when ranks begin to step and when they stop; ``late``: the rank to blame."""

    place: str
    nodes: int
    via: str
    late: int
    address: str
    port: int
    begin_s: float = 0.0
    stall_s: float = float("inf")

    @property
    def ranks(self) -> int:
        """In all."""
        return self.nodes * PER_NODE

    @property
    def path(self) -> Path:
        """Where all parts of the simulation find it."""
        return Path(self.place) / "job.json"

    def write(self) -> None:
        """Tell all parts."""
        aside = self.path.with_suffix(".new")
        aside.write_text(json.dumps(asdict(self)))
        aside.replace(self.path)

    @staticmethod
    def read(path: Path) -> Job:
        """As it is now."""
        return Job(**json.loads(path.read_text()))

    @property
    def party(self) -> JobNodes:
        """As the command line of ``ranks`` tells it to the real nodes."""
        return JobNodes(
            f"torchrun none {self.address}:{self.port}", self.nodes, None, self.address, self.port, self.via
        )

    def recorded(self) -> StalledJob:
        """What the recorders hold: no frames, as in dumps without stacks."""
        return StalledJob(self.ranks, entries=ENTRIES, frames=0, laggard=self.late, tensor_parallel=PER_NODE)


def dump_of(recorded: StalledJob, rank: int) -> bytes:
    """One rank's flight-recorder dump."""
    late = rank == recorded.laggard
    return pickle_like_torch(recorded.head(rank, late=late) | {"entries": recorded.recorded(rank, late=late)})


def view_of(job: Job, rank: int, pid: int, now_s: float) -> RecordView:
    """What the record of ``rank`` says at a moment."""
    stalled = now_s >= job.stall_s
    steps = int(max(0.0, min(now_s, job.stall_s) - job.begin_s) / STEP_S)
    last_s = job.begin_s + steps * STEP_S
    inside = now_s - last_s > STEP_S * 0.9  # the end of a step: gradients are reduced
    late = stalled and rank == job.late
    phase, place, top = (
        LATE if late else WAITS if stalled or inside else ("compute", CodeLine(PROGRAM, 93, "train"), "linear")
    )
    since_s = job.stall_s if stalled else last_s + (0.9 if inside else 0.0) * STEP_S
    # In the end as far as the dumps are, so that what watchers tell and what recorders hold is one story.
    count = job.recorded().last_position - 1 if stalled else steps * 3 + 10
    pending = 1 if (stalled or inside) and not late else 0
    done_ns = int(1e9 * since_s)
    return RecordView(
        identity=RankIdentity(
            pid, rank, rank % PER_NODE, job.ranks, 0, max(1, int(1e9 * (job.begin_s - 5))), "3.11", "2.13.0"
        ),
        recorder_on=True,
        backend="nccl",
        beat_ns=int(1e9 * now_s),
        beat_wall_ns=time.time_ns(),
        thread_id=pid,
        threads=9,
        phase=phase,
        stack_hash=int(since_s * 10),
        since_ns=int(1e9 * since_s),
        sampled_ns=int(1e9 * now_s),
        user=place,
        top=CodeLine("/opt/lib/torch/distributed/distributed_c10d.py", 2810, top),
        stack=f"/opt/lib/torch/distributed/distributed_c10d.py:2810:{top}\n{place.file}:{place.line}:{place.function}",
        step_source="rhythm",
        steps=steps,
        collectives_per_step=3,
        last_step_ns=int(1e9 * last_s),
        step_mean_ns=1e9 * STEP_S,
        groups=[
            GroupProgress("0", job.ranks, count + pending, count + pending, count, done_ns, True, "nccl"),
            GroupProgress(str(10 + rank // PER_NODE), PER_NODE, count * 3, count * 3, count * 3, done_ns, True, "nccl"),
        ],
    )


def keep_ranks(job: Job, number: int) -> None:
    """The ranks of one real node, until we are ended."""
    records, folder = Path(os.environ["UNHANG_RUN"]), Path(os.environ["UNHANG_RUN_DIR"])
    own = range(number * PER_NODE, (number + 1) * PER_NODE)
    sleeping = {rank: subprocess.Popen(["sleep", "infinity"]) for rank in own}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    recorded = job.recorded()
    dumps = {rank: dump_of(recorded, rank) for rank in own}
    control = Control.open_read(records)
    assert control is not None
    try:
        kept = {}
        for rank, process in sleeping.items():
            identity = view_of(job, rank, process.pid, time.monotonic()).identity
            kept[rank] = RecordWriter.create(record_path(records, 0, process.pid), identity)
        (Path(job.place) / f"ready-{number}").touch()
        served = beat = 0
        while True:
            time.sleep(BEAT_S / 5)
            asked = control.read()
            beat += 1
            wanted = max(asked.dump_request, asked.stacks_request)
            if beat % 5 and wanted <= served:
                continue
            if wanted > served:
                for rank, content in dumps.items():
                    (folder / "dumps" / f"rank_{rank}").write_bytes(content)
                served = wanted
            job = _as_it_is(job)
            for rank, record in kept.items():
                view = view_of(job, rank, sleeping[rank].pid, time.monotonic())
                view.dump_served, view.stacks_served = asked.dump_request, asked.stacks_request
                view.dump_result = "written" if served else "none"
                record.now = view
                record.publish()
    finally:
        for process in sleeping.values():
            process.kill()


def _as_it_is(job: Job) -> Job:
    with suppress(OSError, ValueError, TypeError):
        return Job.read(job.path)
    return job


class SimulatedNode:
    """One node: what its carrier would send and read, when it would."""

    def __init__(self, job: Job, number: int, evidence: bytes) -> None:
        self.number, self._evidence = number, evidence
        self.name = f"h{number}"
        nodes, folder = replace(job.party, number=number), str(Path(job.place) / self.name)
        config = TransportConfig(nodes, self.name, folder, started=time.time_ns())
        self._opener, self._config = ExchangeOpener(config, os.environ), config
        self._place: KeyValueExchange | None = None
        self._sealed: SignedValues | None = None
        self.ranks = range(number * PER_NODE, (number + 1) * PER_NODE)
        self._obeyed = 0
        self._turn: object = None
        self._hello_at = self._digest_at = self._words_at = float("-inf")
        self.whole = False
        self.sent = 0

    def open(self) -> bool:
        """Whether it has met the others."""
        with suppress(ExchangeError):
            place, token, _ = self._opener.open()
            place.take_seat(self.number, self.name)
            self._place, self._sealed = (
                place,
                SignedValues(place, token, self._config.nodes.key, started=self._config.started),
            )
        return self._sealed is not None

    def step(self, job: Job, now_s: float) -> float:
        """Say and hear what is due; returns when it is due again."""
        assert self._sealed is not None
        now_ns = int(1e9 * now_s)
        self._hear(now_s)
        if now_s - self._hello_at > HELLOS_S:
            if self._hello_at < 0:
                hello = NodeHello(self.name, self.name, "127.0.0.1", list(self.ranks), now_ns, time.time_ns())
                self.sent += self._sealed.put(f"h/{self.number}", encode(hello))
            self._hello_at = now_s
            self._sealed.get([f"h/{node}" for node in range(MAX_LEADERS)])
        hurries = self.whole or now_s - job.stall_s > 0.4
        turn = self._turn_at(job, now_s)
        if now_s - self._digest_at >= (HURRY_S if hurries and turn != self._turn else CALM_S) - 0.02:
            self._digest_at, self._turn = now_s, turn
            told = digest_of(now_ns, self._now(job, now_s), deaths=0, over=0, whole=hurries)
            self.sent += self._sealed.put(f"d/{self.number}", encode(told))
        return now_s + (HURRY_S if hurries else CALM_S / 2)

    def _turn_at(self, job: Job, now_s: float) -> object:
        """What makes :func:`~unhang.watch.nodes.rank_digest.change_key` another: the ranks' places and counts."""
        stalled = now_s >= job.stall_s
        steps = (min(now_s, job.stall_s) - job.begin_s) / STEP_S
        return stalled, int(steps), steps % 1.0 > 0.9, now_s - job.stall_s > 1.5

    def _now(self, job: Job, now_s: float) -> NodeRanks:
        looks, states = {}, {}
        for rank in self.ranks:
            view = view_of(job, rank, 100_000 + rank, now_s)
            waits = view.phase == "communication"
            idle = view.phase == "other"
            doing = RankActivity.WAITING if waits else RankActivity.IDLE if idle else RankActivity.BUSY
            looks[rank] = RankSample(view)
            stuck = idle and now_s - job.stall_s > 1.5
            states[rank] = RankState(doing, view.since_ns if waits else None, stuck=stuck, in_init=False, rhythm=True)
        return NodeRanks(looks, states)

    def _hear(self, now_s: float) -> None:
        assert self._sealed is not None
        every = now_s - self._words_at >= CALM_S / 2 - 0.02
        if every:
            self._words_at = now_s
        for value in self._sealed.get([f"w/{node}" for node in (range(MAX_LEADERS) if every else [0])]).values():
            word = decoded(value, LeaderMessage)
            if word is None:
                continue
            self.whole = word.whole
            asked = word.request
            if asked is None or asked.number == self._obeyed:
                continue
            self._obeyed = asked.number
            if not asked.nodes or self.number in asked.nodes:
                self.sent += send_evidence(self._sealed, self.number, asked.number, self._evidence)


def evidence_of(job: Job, number: int) -> bytes:
    """What node ``number`` would pack: dumps, stacks as records tell them, the manifest."""
    folder = Path(job.place) / "evidence" / str(number)
    for name in ("dumps", "stacks"):
        (folder / name).mkdir(parents=True)
    recorded, told = job.recorded(), []
    at_stall = Job(job.place, job.nodes, job.via, job.late, job.address, job.port, 0.0, 100.0)
    for rank in range(number * PER_NODE, (number + 1) * PER_NODE):
        (folder / "dumps" / f"rank_{rank}").write_bytes(dump_of(recorded, rank))
        view = view_of(at_stall, rank, 100_000 + rank, 102.0)
        (folder / "stacks" / f"rank_{rank}.txt").write_text(recorded_stack(view, 100_000 + rank))
        told.append(
            {"rank": rank, "local_rank": rank % PER_NODE, "pid": 100_000 + rank, "host": f"h{number}",
             "exit_code": None, "state": "S", "moving": False, "from_record": True}
        )  # fmt: skip
    manifest = {"schema": "unhang.bundle/1", "world_size": job.ranks, "backend": "nccl", "torch_version": "2.13.0",
                "stalled_since_s": time.time(), "taken_s": time.time(), "live": True, "processes": told}  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(manifest))
    target = folder.parent / f"{number}.zip"
    pack_evidence(folder, target)
    return target.read_bytes()


def keep_nodes(job: Job, first: int, last: int) -> None:
    """Nodes ``first`` up to, not with, ``last``; until we are ended."""
    with_evidence = {*range(PACKED), job.late // PER_NODE}
    nodes = [SimulatedNode(job, n, evidence_of(job, n) if n in with_evidence else b"") for n in range(first, last)]
    for node in nodes:
        while not node.open():
            time.sleep(0.2)
    (Path(job.place) / f"ready-{first}").touch()
    now_s = time.monotonic()
    due = [(now_s + at * CALM_S / len(nodes), node.number) for at, node in enumerate(nodes)]
    heapq.heapify(due)
    by_number, read_at, late_s, told_at = {node.number: node for node in nodes}, 0.0, 0.0, now_s
    while True:
        at_s, number = heapq.heappop(due)
        now_s = time.monotonic()
        if now_s < at_s:
            time.sleep(at_s - now_s)
            now_s = time.monotonic()
        late_s = max(late_s, now_s - at_s)
        if now_s - read_at > 0.2:
            job, read_at = _as_it_is(job), now_s
        heapq.heappush(due, (by_number[number].step(job, now_s), number))
        if now_s - told_at > 1.0:
            told_at = now_s
            sent = sum(node.sent for node in nodes)
            told = {"late_s": round(late_s, 3), "cpu_s": time.process_time(), "sent": sent, "nodes": len(nodes)}
            (Path(job.place) / f"crowd-{first}.json").write_text(json.dumps(told))
            late_s = 0.0


def main(words_given: Sequence[str]) -> int:
    """See above."""
    what, path, *numbers = words_given
    job = Job.read(Path(path))
    if what == "ranks":
        keep_ranks(job, int(numbers[0]))
    else:
        keep_nodes(job, int(numbers[0]), int(numbers[1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
