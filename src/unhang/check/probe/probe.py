"""The probe from beginning to end: everything once, and where something fails or lags, a closer look."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import torch
import torch.distributed as dist

from unhang.check.probe.participants import (
    RENDEZVOUS_LIMIT_S,
    LocalParticipants,
    Participants,
    RemoteParticipants,
    follow_jobs,
)
from unhang.check.probe.probe_jobs import (
    CPU_SIZES,
    GPU_SIZES,
    Groups,
    JobOutcome,
    ProbeJob,
    all_pairs_rounds,
    connect_step,
    first_round,
    pairs_alone,
    pairs_of,
    quick_steps,
    second_round,
    small_steps,
    world_steps,
)
from unhang.check.probe.process_location import node_names
from unhang.check.probe.rendezvous import LauncherRank, ProbeStore
from unhang.check.probe_results.probe_results import (
    PairSpeed,
    ProbeResult,
    ProbeStep,
    SuspectRound,
    answer_line,
    refusal_line,
)
from unhang.check.probe_results.speeds import slow_pairs
from unhang.program.launch.job_environment import find_task

LIMITS_S = {"gloo": 5.0, "nccl": 30.0}
"""Of one step, where the user names none; making NCCL's communicators takes seconds on many nodes."""
SILENCE_S = {"probe": 180.0, "serve": 600.0}
"""How long a rank waits for the next word of rank 0."""
CPU_RANKS = 2
MAX_CPU_RANKS = 16
"""More ranks than that on one CPU say nothing new and only wait for each other."""


@dataclass(slots=True)
class ProbeRun:
    """One probe on ``participants``. ``scopes``: ranks of a group by the setting they come from."""

    participants: Participants
    backend: str
    limit_s: float
    scopes: Mapping[str, int] = field(default_factory=dict)
    planned: int | None = None
    address: str = ""
    _jobs: int = 0

    def whole(self) -> ProbeResult:
        """Every operation on every group, then whatever is needed to say who is to blame."""
        started = time.monotonic()
        if self.participants.missing:
            return self._probed(None, started)
        probed = self._together(started)
        if probed.failure is None:
            return replace(self._confirmed(probed), took_s=time.monotonic() - started)
        rounds = self._apart()
        if not any(tried.failed for tried in rounds):
            # Nobody is to blame: a machine that was busy for a moment is late once, a fault is there again.
            again = self._together(started)
            if again.failure is None:
                return replace(self._confirmed(again), failed_once=True, took_s=time.monotonic() - started)
        return replace(probed, rounds=rounds, took_s=time.monotonic() - started)

    def run_quick(self, changes: Mapping[str, str]) -> ProbeResult:
        """Whether all ranks work together under ``changes`` of the environment, and how fast."""
        started = time.monotonic()
        if self.participants.missing:
            return self._probed(None, started)
        steps = quick_steps(len(self._nodes), self._sizes)
        return self._probed(self._run(self._everyone, steps, changes), started)

    def _together(self, started: float) -> ProbeResult:
        steps = world_steps(len(self._nodes), {**_node_scope(self._nodes), **self.scopes}, self._sizes)
        return self._probed(self._run(self._everyone, steps), started)

    @property
    def _nodes(self) -> tuple[str, ...]:
        return node_names(list(self.participants.places))

    @property
    def _everyone(self) -> Groups:
        return (tuple(range(len(self.participants.places))),)

    @property
    def _sizes(self) -> Sequence[int]:
        return GPU_SIZES if self.backend == "nccl" else CPU_SIZES

    def _run(
        self, islands: Groups, steps: tuple[ProbeStep, ...], changes: Mapping[str, str] | None = None
    ) -> JobOutcome:
        self._jobs += 1
        return self.participants.run(ProbeJob(self._jobs, self.backend, islands, steps, self.limit_s, changes or {}))

    def _probed(self, outcome: JobOutcome | None, started: float) -> ProbeResult:
        nodes = self._nodes
        between = len(set(nodes)) > 1
        links = [place.link for place in self.participants.places if place.link is not None]
        devices = {line.rank: line.device for line in outcome.lines if line.device} if outcome else {}
        return ProbeResult(
            backend=self.backend,
            nodes=nodes,
            steps=outcome.steps if outcome else (),
            limit_s=self.limit_s,
            pairs=tuple(pairs_of(outcome.job.steps, outcome.lines)) if outcome else (),
            missing=self.participants.missing,
            place=self.address,
            link=min(links) if between and len(links) == len(nodes) else None,
            interface=self.participants.places[0].interface if between else "",
            left=outcome.left if outcome else 0,
            planned=self.planned,
            devices=tuple(devices.get(rank, "") for rank in range(len(nodes))) if devices else (),
            took_s=time.monotonic() - started,
        )

    def _apart(self) -> tuple[SuspectRound, ...]:
        """Nodes, or the ranks of one node, tried in groups of their own: two rounds find one bad one of many."""
        units = _units(self._nodes)
        if len(units) < 3:
            return ()
        if len(units) == 3:
            return tuple(self._round(units, groups) for groups in all_pairs_rounds(range(3)))
        first_groups = first_round(range(len(units)))
        first = self._round(units, first_groups)
        failed = {group for group, ranks in zip(first_groups, first.groups, strict=True) if ranks in first.failed}
        second_groups = second_round(first_groups, failed)
        if not failed or not second_groups:
            return (first,)
        return (first, self._round(units, second_groups))

    def _round(self, units: Sequence[tuple[int, ...]], groups: Sequence[tuple[int, ...]]) -> SuspectRound:
        islands = tuple(tuple(rank for unit in group for rank in units[unit]) for group in groups)
        outcome = self._run(islands, (connect_step(islands), *small_steps(islands, self._sizes[:2])[1:]))
        return SuspectRound(islands, outcome.failed_islands)

    def _confirmed(self, probed: ProbeResult) -> ProbeResult:
        """Slow pairs once more, alone: the better of the two times counts, since other traffic only ever slows."""
        suspects = _suspects(probed)
        if not suspects:
            return probed
        steps = pairs_alone(probed.ranks, suspects, (self._sizes[0], self._sizes[-1]))
        outcome = self._run(self._everyone, steps)
        again = {pair.ranks: pair for pair in pairs_of(outcome.job.steps, outcome.lines)}
        return replace(probed, pairs=tuple(_better(pair, again.get(pair.ranks)) for pair in probed.pairs))


def _suspects(probed: ProbeResult) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for slow in slow_pairs(probed):
        of_ranks = [pair.ranks for pair in probed.pairs if set(pair.ranks) & set(slow.ranks)]
        found += [pair.ranks for pair in probed.pairs if tuple(sorted(pair.ranks)) in slow.pairs]
        found += of_ranks
    return tuple(dict.fromkeys(found))


def _better(one: PairSpeed, other: PairSpeed | None) -> PairSpeed:
    return one if other is None or other.bandwidth <= one.bandwidth else other


def _units(nodes: tuple[str, ...]) -> list[tuple[int, ...]]:
    """The ranks of each node; single ranks where there is one node only."""
    if len(set(nodes)) == 1:
        return [(rank,) for rank in range(len(nodes))]
    return [tuple(rank for rank, own in enumerate(nodes) if own == name) for name in dict.fromkeys(nodes)]


def _node_scope(nodes: tuple[str, ...]) -> dict[str, int]:
    """``node``, where all nodes hold the same number of ranks, one after the other."""
    units = _units(nodes)
    sizes = {len(unit) for unit in units}
    lined_up = all(unit == tuple(range(unit[0], unit[0] + len(unit))) for unit in units)
    return {"node": len(units[0])} if len(set(nodes)) > 1 and len(sizes) == 1 and lined_up else {}


def run(chosen: argparse.Namespace) -> int:
    """Do what was asked; 0 when there was an answer."""
    task = find_task(os.environ)
    if task is None:
        return _work(chosen, LocalParticipants(_count(chosen)), "", lambda _: None)
    seat = LauncherRank.of(task, os.environ)
    meeting = ProbeStore(seat, limit_s=RENDEZVOUS_LIMIT_S)
    place = f"{seat.address}:{seat.port}"
    if seat.rank == 0:
        leader = RemoteParticipants(meeting)
        return _work(chosen, leader, place, leader.end)
    said = follow_jobs(meeting, limit_s=SILENCE_S[chosen.verb])
    sys.stdout.write(said.decode() if said is not None else refusal_line(f"rank 0 fell silent at {place}"))
    return 0 if said is not None else 1


def _work(chosen: argparse.Namespace, participants: Participants, place: str, end: Callable[[bytes], None]) -> int:
    backend = chosen.backend or _backend()
    scopes = {name: int(ranks) for name, _, ranks in (word.rpartition(":") for word in chosen.scope)}
    probe = ProbeRun(participants, backend, chosen.limit or LIMITS_S[backend], scopes, chosen.planned, place)
    if chosen.verb == "probe":
        last = _give(probe.whole())
    else:
        last = ""
        for line in sys.stdin:
            last = _give(probe.run_quick(msgspec.json.decode(line, type=dict[str, str])))
    end(last.encode())
    return 0


def _give(probed: ProbeResult) -> str:
    text = answer_line(probed)
    sys.stdout.write(text)
    sys.stdout.flush()
    return text


def _backend() -> str:
    return "nccl" if dist.is_nccl_available() and torch.cuda.device_count() > 0 else "gloo"


def _count(chosen: argparse.Namespace) -> int:
    if (chosen.backend or _backend()) == "nccl":
        cards: int = torch.cuda.device_count()  # through NVML: nothing of CUDA may start before the fork
        return min(chosen.ranks or cards, cards)
    return min(chosen.ranks or CPU_RANKS, MAX_CPU_RANKS)
