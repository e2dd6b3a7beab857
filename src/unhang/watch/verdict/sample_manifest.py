"""``bundle.json``: what a sample tells of every rank's process."""

from __future__ import annotations

import importlib.metadata
import time
from contextlib import suppress

import msgspec

from unhang.watch.job.job_ranks import JobRank
from unhang.watch.sampling import kept_logs
from unhang.watch.verdict.evidence_request import EvidenceRequest, SampleResult
from unhang.wire.documents.bundle import NO_EXTERNAL_WAITS, BundleManifest, GuardWait, MarkedPhase, RankProcess
from unhang.wire.process_registration import host_name
from unhang.wire.record_views import RecordView


def manifest_of(request: EvidenceRequest, taken: SampleResult) -> BundleManifest:
    """What the sample tells; the list of files is added where it is written."""
    backends = [member.view.backend for member in request.members.values() if member.view.backend]
    versions = [member.view.identity.torch for member in request.members.values() if member.view.identity.torch]
    return BundleManifest(
        world_size=request.world_size,
        backend=backends[0] if backends else "",
        torch_version=versions[0] if versions else _torch_version(),
        stalled_since_s=request.stalled_since_s,
        taken_s=taken.taken_s,
        live=request.live,
        source_root="source",
        source_prefix="/",
        log_bytes=taken.log_bytes,
        cut=tuple(kept_logs.cut_logs(request.records)),
        # a process that came to init_process_group without a rank (no RANK, no rank=) is none of its job's
        processes=tuple(
            _process(request, taken, member) for rank, member in sorted(request.members.items()) if rank >= 0
        ),
    )


def _process(request: EvidenceRequest, taken: SampleResult, member: JobRank) -> RankProcess:
    rank, me = member.rank, member.view.identity
    gone = member.ended_ns is not None
    queues = taken.queues
    process = RankProcess(
        rank,
        local_rank=me.local_rank if me.local_rank >= 0 else None,
        pid=member.pid,
        host=member.registration.host if member.registration is not None else host_name(),
        exit_code=member.exit_code if gone else None,
        terminated_by_launcher=gone and _is_victim(request, member),
        state="" if gone else taken.states.get(rank, member.state),
        ended_s=member.ended_s,
        moving=taken.moving.get(rank),
        beats=taken.beats.get(rank),
        idle=rank in taken.idle,
        not_seen=taken.not_seen.get(rank, ""),
        kernel=tuple(one.as_json() for one in taken.kernel.get(rank, ())),
        from_record=rank in taken.from_record,
        unanswered=tuple(f"{address}:{port}" for address, port in sorted(taken.unanswered.get(rank, ()))),
        awaits=taken.awaits.get(rank, NO_EXTERNAL_WAITS),
        addresses=tuple(queues.addresses(rank)) if queues is not None else (),
        piled_up=tuple(queues.piled_up(rank)) if queues is not None else (),
    )
    return _with_annotations(process, taken.views.get(rank, member.view), member.ended_ns)


def _with_annotations(process: RankProcess, view: RecordView, ended_ns: int | None) -> RankProcess:
    """What the rank says of itself in its record: the marked phase it is in, the guard or the partner it waits for and
    the groups it is a member of. ``ended_ns``: when it ended, monotonic."""
    now_ns = ended_ns if ended_ns is not None else time.monotonic_ns()
    mark, wait, world = view.mark, view.wait, view.identity.world_size
    return msgspec.structs.replace(
        process,
        marked=MarkedPhase(_plain(mark.label), _seconds(now_ns - mark.since_ns), mark.phase, _limit_s(mark.at_most_ns))
        if mark is not None
        else None,
        guard_wait=GuardWait(
            _plain(wait.what),
            _seconds(now_ns - wait.since_ns),
            tuple(rank for rank in wait.ranks if rank < world),
            _limit_s(wait.limit_ns),
        )
        if wait is not None
        else None,
        partner=view.partner if 0 <= view.partner < world else None,
        groups={_plain(group.name): group.size for group in view.groups if 0 < group.size <= world},
    )


def _seconds(duration_ns: int) -> float:
    return round(max(0, duration_ns) / 1e9, 3)


def _limit_s(limit_ns: int) -> float | None:
    return _seconds(limit_ns) if limit_ns >= 0 else None


def _plain(text: str) -> str:
    """A label is the user's own text: nothing in it may make the manifest unreadable."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _is_victim(request: EvidenceRequest, member: JobRank) -> bool:
    """Ended by SIGTERM after a sibling had failed: that is what launchers do."""
    failed = [one.ended_ns for one in request.members.values() if one.ended_ns and one.exit_code not in (0, -15, None)]
    return member.exit_code == -15 and any(failed_ns <= (member.ended_ns or 0) for failed_ns in failed)


def _torch_version() -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("torch")
    return ""
