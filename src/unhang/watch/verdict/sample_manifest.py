"""``bundle.json``: what a sample tells of every rank's process."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.sampling import kept_logs
from unhang.watch.sampling.bundle_files import manifest_files
from unhang.watch.sampling.user_annotations import annotation_entries
from unhang.watch.verdict.evidence_request import EvidenceRequest, SampleResult
from unhang.wire.process_registration import host_name

SCHEMA = "unhang.bundle/1"


def manifest_of(request: EvidenceRequest, taken: SampleResult) -> dict[str, Any]:
    """``bundle.json`` as a dict; ``docs/bundle.md`` tells the keys."""
    backends = [member.view.backend for member in request.members.values() if member.view.backend]
    versions = [member.view.identity.torch for member in request.members.values() if member.view.identity.torch]
    return {
        "schema": SCHEMA,
        "world_size": request.world_size,
        "backend": backends[0] if backends else "",
        "torch_version": versions[0] if versions else _torch_version(),
        "stalled_since_s": request.stalled_since_s,
        "taken_s": taken.taken_s,
        "limit_s": None,
        "live": request.live,
        "source_root": "source",
        "source_prefix": "/",
        **({"log_bytes": taken.log_bytes} if taken.log_bytes else {}),
        **({"cut": cut} if (cut := kept_logs.cut_logs(request.records)) else {}),
        # a process that came to init_process_group without a rank (no RANK, no rank=) is none of its job's
        "processes": [
            _process(request, taken, member) for rank, member in sorted(request.members.items()) if rank >= 0
        ],
    }


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write ``bundle.json`` anew, with the list of what lies beside it by now."""
    private_files.write_json(folder / "bundle.json", {**manifest, "files": manifest_files(folder)})


def _process(request: EvidenceRequest, taken: SampleResult, member: JobRank) -> dict[str, Any]:
    me = member.view.identity
    gone = member.ended_ns is not None
    return {
        "rank": member.rank,
        "local_rank": me.local_rank if me.local_rank >= 0 else None,
        "pid": member.pid,
        "host": member.registration.host if member.registration is not None else host_name(),
        "exit_code": member.exit_code if gone else None,
        "terminated_by_launcher": gone and _is_victim(request, member),
        "killed_by_us": False,
        "state": "" if gone else taken.states.get(member.rank, member.state),
        "ended_s": member.ended_s,
        "moving": taken.moving.get(member.rank),
        **({"beats": taken.beats[member.rank]} if member.rank in taken.beats else {}),
        **({"idle": True} if member.rank in taken.idle else {}),
        **({"not_seen": reason} if (reason := taken.not_seen.get(member.rank)) else {}),
        **({"kernel": [one.as_json() for one in both]} if (both := taken.kernel.get(member.rank)) else {}),
        **({"from_record": True} if member.rank in taken.from_record else {}),
        **(
            {"unanswered": [f"{a}:{p}" for a, p in sorted(peers)]}
            if (peers := taken.unanswered.get(member.rank))
            else {}
        ),
        **taken.awaits.get(member.rank, {}),
        **_send_queue_entries(taken, member.rank),
        **annotation_entries(taken.views.get(member.rank, member.view), member.ended_ns),
    }


def _send_queue_entries(taken: SampleResult, rank: int) -> dict[str, list[str]]:
    if taken.queues is None:
        return {}
    return {"addresses": taken.queues.addresses(rank), "piled_up": taken.queues.piled_up(rank)}


def _is_victim(request: EvidenceRequest, member: JobRank) -> bool:
    """Ended by SIGTERM after a sibling had failed: that is what launchers do."""
    assert member.ended_ns is not None
    failed = [
        other.ended_ns
        for other in request.members.values()
        if other.ended_ns is not None and other.exit_code not in (0, -15, None)
    ]
    return member.exit_code == -15 and bool(failed) and min(failed) <= member.ended_ns


def _torch_version() -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("torch")
    return ""
