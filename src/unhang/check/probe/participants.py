"""Everyone who takes part in a probe, and how a job is given to them: forked here, or over the meeting elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from unhang.check.probe.forked_ranks import GRACE_S, run_ranks
from unhang.check.probe.probe_jobs import JobOutcome, ProbeJob, StepReport
from unhang.check.probe.probe_rank import ProbeRank
from unhang.check.probe.process_location import ProcessLocation, interfaces_by_network, locate_process
from unhang.check.probe.rendezvous import ProbeStore, island_store, local_store
from unhang.knowledge.job.workarounds import NETWORK_PLACEHOLDER

RENDEZVOUS_LIMIT_S = 30.0
WHOLE_S = 60.0
"""Of one job, unless something fails in it before."""
_END = b"end"
_SLACK_S = 3.0


@dataclass(slots=True)
class LocalParticipants:
    """All ranks on this machine, forked from this process."""

    count: int
    places: Sequence[ProcessLocation] = ()
    missing: tuple[int, ...] = ()
    _store: Any = None

    def __post_init__(self) -> None:
        self._store = local_store(RENDEZVOUS_LIMIT_S)
        self.places = (locate_process("127.0.0.1"),) * self.count

    def run(self, job: ProbeJob) -> JobOutcome:
        """Fork a process for every rank."""
        return JobOutcome(job, _forked(job, job.ranks, "127.0.0.1", self._store.port))


@dataclass(slots=True)
class RemoteParticipants:
    """Rank 0 of a job whose other ranks have processes of their own, on any node."""

    meeting: ProbeStore
    places: Sequence[ProcessLocation] = ()
    missing: tuple[int, ...] = ()
    _jobs: int = field(default=0)

    def __post_init__(self) -> None:
        seat = self.meeting.seat
        found = {0: locate_process(seat.address)}
        for rank in range(1, seat.world):
            said = self.meeting.take(
                f"here/{rank}", limit_s=RENDEZVOUS_LIMIT_S if rank not in found and not self.missing else 1
            )
            if said is None:
                self.missing = (*self.missing, rank)
            else:
                found[rank] = msgspec.json.decode(said, type=ProcessLocation)
        self.places = [found.get(rank, ProcessLocation("", "")) for rank in range(seat.world)]

    def run(self, job: ProbeJob) -> JobOutcome:
        """Hand it out, do our own part, gather the others' lines."""
        seat = self.meeting.seat
        self.meeting.put(f"job/{self._jobs}", msgspec.json.encode(job))
        lines = list(_forked(job, [0] if 0 in job.ranks else [], seat.address, seat.port, seat.local_rank))
        silent = []
        wait_s = job.limit_s + GRACE_S + _SLACK_S if 0 in job.ranks else WHOLE_S
        for rank in (rank for rank in job.ranks if rank):
            said = self.meeting.take(f"lines/{self._jobs}/{rank}", limit_s=wait_s)
            if said is None:
                silent.append(rank)
                wait_s = 1.0
            else:
                lines += msgspec.json.decode(said, type=list[StepReport])
        self._jobs += 1
        return JobOutcome(job, tuple(lines), tuple(silent))

    def end(self, answer: bytes) -> None:
        """Give everybody the answer and wait until they have it: the store ends with us."""
        self.meeting.put("answer", answer)
        self.meeting.put(f"job/{self._jobs}", _END)
        for rank in range(1, self.meeting.seat.world):
            if rank not in self.missing:
                self.meeting.take(f"gone/{rank}", limit_s=1.0)


Participants = LocalParticipants | RemoteParticipants
"""They run probe jobs on all ranks and gather what these report."""


def follow_jobs(meeting: ProbeStore, *, limit_s: float) -> bytes | None:
    """Do what the leader says until it ends; its answer, None when it fell silent for ``limit_s``."""
    seat = meeting.seat
    meeting.put(f"here/{seat.rank}", msgspec.json.encode(locate_process(seat.address)))
    for number in count():
        said = meeting.take(f"job/{number}", limit_s=limit_s)
        if said is None:
            return None
        if said == _END:
            answer = meeting.take("answer", limit_s=1.0)
            meeting.put(f"gone/{seat.rank}", b"1")
            return answer
        job = msgspec.json.decode(said, type=ProbeJob)
        if seat.rank in job.ranks:
            lines = _forked(job, [seat.rank], seat.address, seat.port, seat.local_rank)
            meeting.put(f"lines/{number}/{seat.rank}", msgspec.json.encode(lines))
    return None


def _forked(
    job: ProbeJob, ranks: Sequence[int], address: str, port: int, local_rank: int | None = None
) -> tuple[StepReport, ...]:
    def work(rank: int, report: Any) -> None:
        _change(job)
        island = next(island for island in job.islands if rank in island)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = island_store(address, port, f"{attempt}/{job.number}/{island[0]}", job.limit_s)
        ProbeRank(job, rank, rank if local_rank is None else local_rank, store, report).work()

    return run_ranks(ranks, work, limit_s=job.limit_s, whole_s=WHOLE_S)


def _change(job: ProbeJob) -> None:
    own = interfaces_by_network() if any(NETWORK_PLACEHOLDER in value for value in job.set.values()) else {}
    for name, value in job.set.items():
        before, sign, network = value.partition(NETWORK_PLACEHOLDER)
        if sign:
            os.environ[name] = before + own.get(network, "no-interface-in-this-network")
        elif value:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)
