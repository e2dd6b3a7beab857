"""What the probe process does once torch is there: alone on this machine, or with the others of a launcher."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

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
from unhang.check.probe.probe import LIMITS_S, ProbeRun
from unhang.check.probe.rendezvous import LauncherRank, ProbeStore
from unhang.check.probe_results.probe_results import ProbeResult, answer_line, refusal_line

SILENCE_S = {"probe": 180.0, "serve": 600.0}
"""How long a rank waits for the next word of rank 0."""
CPU_RANKS = 2
MAX_CPU_RANKS = 16
"""More ranks than that on one CPU say nothing new and only wait for each other."""


def run(chosen: argparse.Namespace) -> int:
    """Do what was asked; 0 when there was an answer."""
    seat = LauncherRank.found(os.environ)
    if seat is None:
        return _work(chosen, LocalParticipants(_count(chosen)), "", lambda _: None)
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
