"""What was seen of a job that was attached to, and ``bundle.json`` made of it: what kernel and environments tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from unhang.facts.pace.straggler import waits
from unhang.facts.stacks.activity import activity_of
from unhang.watch.attach.rank_selection import RankSelection
from unhang.watch.attach.sources import nccl_ras as ras
from unhang.watch.process_state.external_waits import find_external_waits
from unhang.watch.process_state.proc_processes import PROC, Process, backend_of, has_mapped, text_of, torch_version_of
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.stack_collection import ProcessSample, is_idle
from unhang.watch.sampling import bundle_files
from unhang.wire.documents.bundle import BundleManifest, RankProcess


@dataclass(slots=True)
class CollectedEvidence:
    """What sampling a job gave. ``samples`` by pid, oldest first."""

    folder: Path
    chosen: RankSelection
    samples: dict[int, list[ProcessSample]] = field(default_factory=dict)
    workers: dict[int, tuple[Process, ...]] = field(default_factory=dict)
    parts: tuple[Process, ...] = ()
    """Of the job, and no ranks."""
    moving: dict[int, bool] = field(default_factory=dict)
    dumps: set[int] = field(default_factory=set)
    empty_dumps: set[int] = field(default_factory=set)
    """Ranks whose debug server answered that its recorder held nothing."""
    ras: tuple[ras.RasReport, ...] = ()
    taken_s: float = 0.0

    @property
    def world_size(self) -> int | None:
        """Ranks of the whole job, also those on other machines."""
        return max((rank.world_size for rank in self.chosen.ranks if rank.world_size is not None), default=None)

    @property
    def uses_cards(self) -> bool:
        """A collective of this job may wait on a GPU, where the thread spins."""
        return any(has_mapped(r.pid, "libcuda.so") or has_mapped(r.pid, "libamdhip") for r in self.chosen.ranks)

    def states(self) -> dict[int, str]:
        """Last ``/proc`` state of each rank's main thread."""
        return {r.rank: self.samples[r.pid][-1].kernel.state for r in self.chosen.ranks if self.samples.get(r.pid)}

    def asleep_since_s(self, rank: int) -> float | None:
        """Since when a rank that does not move has not run; None where the kernel does not tell."""
        samples = next((self.samples.get(one.pid) for one in self.chosen.ranks if one.rank == rank), None)
        asleep_s = samples[0].kernel.asleep_s if samples and self.moving.get(rank) is False else None
        return samples[0].at_s - asleep_s if samples and asleep_s is not None else None

    def refused(self) -> dict[int, str]:
        """Ranks without a single stack, and why."""
        seen = {r.rank: self.samples.get(r.pid, []) for r in self.chosen.ranks}
        return {
            rank: samples[-1].refused
            for rank, samples in seen.items()
            if samples and not any(sample.stack for sample in samples)
        }


TAKEN_BY = "unhang attach"
_SETTINGS = ("NCCL_", "TORCH_", "GLOO_", "CUDA_", "HIP_", "ROCR_", "OMP_", "PYTORCH_", "TORCHELASTIC_", "SLURM_JOB_ID")
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASS", "CREDENTIAL")


def write_manifest(taken: CollectedEvidence, source: Mapping[str, str]) -> None:
    """Write ``bundle.json``. ``source``: where the program lies in the bundle, and where it lay."""
    refused = taken.refused()
    manifest = BundleManifest(
        taken_by=TAKEN_BY,
        world_size=taken.world_size,
        backend=next(filter(None, (backend_of(rank.pid) for rank in taken.chosen.ranks)), ""),
        torch_version=torch_version_of(taken.chosen.ranks[0].pid),
        stalled_since_s=_stalled_since_s(taken),
        taken_s=taken.taken_s,
        live=True,
        launcher=taken.chosen.launcher,
        processes=tuple(_process(taken, rank, refused.get(rank.rank, "")) for rank in taken.chosen.ranks),
    )
    bundle_files.write_manifest(taken.folder, msgspec.structs.replace(manifest, **source))


def _stalled_since_s(taken: CollectedEvidence) -> float | None:
    """When the first of the ranks that wait and do not move fell asleep there; None where the kernel does not tell."""
    first = {rank.rank: samples[0].dump for rank in taken.chosen.ranks if (samples := taken.samples.get(rank.pid))}
    waiting = [rank for rank, dump in first.items() if dump is not None and waits(activity_of(dump, {})[0])]
    return min(filter(None, map(taken.asleep_since_s, waiting)), default=None)


def _process(taken: CollectedEvidence, rank: LiveRank, refused: str) -> RankProcess:
    samples = taken.samples.get(rank.pid, [])
    family = [samples, *(taken.samples.get(worker.pid, []) for worker in taken.workers.get(rank.pid, ()))]
    return RankProcess(
        rank.rank,
        local_rank=rank.local_rank,
        pid=rank.pid,
        host=os.uname().nodename,
        state=samples[-1].kernel.state if samples else "",
        moving=taken.moving.get(rank.rank),
        idle=all(map(is_idle, family)),
        not_seen=refused,
        unanswered=always_unanswered(samples),
        awaits=find_external_waits(rank.pid, (samples[-1].stack or b"").decode(errors="replace") if samples else ""),
        guessed_rank=rank.guessed,
        kernel=tuple(sample.kernel.as_json() for sample in samples),
        settings=settings_of(rank),
        limits=_limits(rank.pid),
    )


def always_unanswered(samples: list[ProcessSample]) -> tuple[str, ...]:
    """What it tried to connect to at every sample; nothing where it was sampled once, for it may just be connecting."""
    peers = frozenset.intersection(*(sample.unanswered for sample in samples)) if len(samples) > 1 else frozenset()
    return tuple(f"{address}:{port}" for address, port in sorted(peers))


def settings_of(rank: LiveRank) -> dict[str, str]:
    """Variables that matter to collectives; nothing that may be a secret."""
    return {
        name: value[:300]
        for name, value in sorted(rank.environment.items())
        if name.startswith(_SETTINGS) and not any(word in name.upper() for word in _SECRET)
    }


def _limits(pid: int) -> dict[str, str]:
    """Soft limits of the process, as ``/proc/PID/limits`` says them."""
    found = {}
    for line in text_of(PROC / str(pid) / "limits").splitlines()[1:]:
        found[line[:26].strip()] = line[26:47].strip()
    return {name: value for name, value in found.items() if name in _WANTED_LIMITS}


_WANTED_LIMITS = ("Max locked memory", "Max open files", "Max processes", "Max core file size")
