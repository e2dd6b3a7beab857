"""``bundle.json`` of a job that was attached to: what the kernel and the environments tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from unhang.watch.attach.collected_evidence import CollectedEvidence
from unhang.watch.process_state.external_waits import find_external_waits
from unhang.watch.process_state.proc_processes import backend_of, torch_version_of
from unhang.watch.process_state.progress_between_samples import is_idle
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.stack_collection import ProcessSample
from unhang.watch.sampling import bundle_files
from unhang.wire.documents.bundle import BundleManifest, RankProcess

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
        taken_s=taken.taken_s,
        live=True,
        launcher=taken.chosen.launcher,
        processes=tuple(_process(taken, rank, refused.get(rank.rank, "")) for rank in taken.chosen.ranks),
    )
    bundle_files.write_manifest(taken.folder, msgspec.structs.replace(manifest, **source))


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
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]:
            found[line[:26].strip()] = line[26:47].strip()
    return {name: value for name, value in found.items() if name in _WANTED_LIMITS}


_WANTED_LIMITS = ("Max locked memory", "Max open files", "Max processes", "Max core file size")
