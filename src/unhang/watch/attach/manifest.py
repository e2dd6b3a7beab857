"""``bundle.json`` of a job that was attached to: what the kernel and the environments tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unhang.watch import private_files
from unhang.watch.attach.collected_evidence import CollectedEvidence
from unhang.watch.process_state.external_waits import find_external_waits
from unhang.watch.process_state.proc_processes import backend_of, torch_version_of
from unhang.watch.process_state.progress_between_samples import is_idle
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.stack_collection import ProcessSample
from unhang.watch.sampling.bundle_files import manifest_files

SCHEMA = "unhang.bundle/1"
TAKEN_BY = "unhang attach"
_SETTINGS = ("NCCL_", "TORCH_", "GLOO_", "CUDA_", "HIP_", "ROCR_", "OMP_", "PYTORCH_", "TORCHELASTIC_", "SLURM_JOB_ID")
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASS", "CREDENTIAL")


def write_manifest(taken: CollectedEvidence, source: Mapping[str, str]) -> None:
    """Write ``bundle.json``; ``docs/bundle.md`` tells the keys."""
    refused = taken.refused()
    manifest = {
        "schema": SCHEMA,
        "taken_by": TAKEN_BY,
        "world_size": taken.world_size,
        "backend": next(filter(None, (backend_of(rank.pid) for rank in taken.chosen.ranks)), ""),
        "torch_version": torch_version_of(taken.chosen.ranks[0].pid),
        "stalled_since_s": None,
        "taken_s": taken.taken_s,
        "live": True,
        "limit_s": None,
        **source,
        "launcher": taken.chosen.launcher,
        "processes": [_entry(taken, rank, refused.get(rank.rank, "")) for rank in taken.chosen.ranks],
        "files": manifest_files(taken.folder),
    }
    private_files.write_json(taken.folder / "bundle.json", manifest)


def _entry(taken: CollectedEvidence, rank: LiveRank, refused: str) -> dict[str, Any]:
    samples = taken.samples.get(rank.pid, [])
    family = [samples, *(taken.samples.get(worker.pid, []) for worker in taken.workers.get(rank.pid, ()))]
    return {
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "pid": rank.pid,
        "host": os.uname().nodename,
        "exit_code": None,
        "killed_by_us": False,
        "state": samples[-1].kernel.state if samples else "",
        "ended_s": None,
        "moving": taken.moving.get(rank.rank),
        "idle": all(map(is_idle, family)),
        "not_seen": refused,
        **always_unanswered(samples),
        **find_external_waits(rank.pid, (samples[-1].stack or b"").decode(errors="replace") if samples else ""),
        "guessed_rank": rank.guessed,
        "kernel": [sample.kernel.as_json() for sample in samples],
        "settings": settings_of(rank),
        "limits": _limits(rank.pid),
    }


def always_unanswered(samples: list[ProcessSample]) -> dict[str, list[str]]:
    """What it tried to connect to at every sample; nothing where it was sampled once, for it may just be connecting."""
    peers = frozenset.intersection(*(sample.unanswered for sample in samples)) if len(samples) > 1 else frozenset()
    return {"unanswered": [f"{address}:{port}" for address, port in sorted(peers)]} if peers else {}


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
