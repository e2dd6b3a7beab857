"""Take the evidence of one moment into the run folder: dumps, stacks twice, process states, logs, crash reports.

Runs in a short-lived child of the watcher, so that nothing in here can hold the watcher up.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.process_state.proc_processes import lives
from unhang.watch.sampling import exit_evidence, kept_evidence, kept_logs
from unhang.watch.sampling.bundle_files import write_manifest
from unhang.watch.sampling.checkpoint_search import STALL_LIMIT_S, CheckpointSearch
from unhang.watch.verdict.evidence_request import EvidenceRequest, SampleResult, SamplingInterrupted
from unhang.watch.verdict.live_sampling import sample_live_ranks
from unhang.watch.verdict.sample_manifest import manifest_of


def collect_evidence(request: EvidenceRequest, folder: Path) -> SampleResult:
    """Take the evidence of ``request`` into ``folder`` and write its manifest.

    Raises:
        Interrupted: the job ended meanwhile; the evidence of an earlier sample, if any, is back in its place.
    """
    taken = SampleResult()
    exit_evidence.infer_exit_codes(request.members, folder)
    if request.ended_well:
        taken.taken_s = time.time()
        exit_evidence.keep_exceptions(request.members, request.job_outputs, folder)
        write_manifest(folder, manifest_of(request, taken))
        return taken
    saved = None
    if request.command:  # beside everything else, so that it costs the verdict no time
        saved = CheckpointSearch(command=request.command, cwd=request.cwd, world_size=request.world_size)
    if request.live:
        _sample_keeping_earlier(request, folder, taken)
    else:
        if request.said is not None:
            kept_evidence.copy_aside(folder)
        shutil.rmtree(folder / "source", ignore_errors=True)
        exit_evidence.drop_earlier_dumps(request.members, folder)
        exit_evidence.keep_exit_stacks(request.members, folder)
    kept_logs.keep_logs(kept_logs.output_logs(request.job_outputs, request.members), folder)
    exit_evidence.keep_exceptions(request.members, request.job_outputs, folder)
    for name, content in request.machine.items():
        _keep(folder, name, content)
    if saved is not None:
        _keep(folder, "checkpoints.json", saved.answer(STALL_LIMIT_S) or b"")
    taken.taken_s, taken.log_bytes = time.time(), kept_logs.log_sizes(folder) if request.live else {}
    write_manifest(folder, manifest_of(request, taken))
    return taken


def _sample_keeping_earlier(request: EvidenceRequest, folder: Path, taken: SampleResult) -> None:
    """Sample while the evidence of the sample before lies aside, and give it up only for a whole new one."""
    stacks = folder / ".unhang" / "stacks"
    kept_evidence.set_dumps_aside(folder)
    ended = (rank for rank, member in request.members.items() if member.ended_ns is not None)
    kept_evidence.restore_dumps(folder, ended)
    shutil.rmtree(stacks, ignore_errors=True)
    private_files.make_folder(stacks)
    sample_live_ranks(request, folder, stacks, taken)
    gone = [rank for rank in taken.states if not lives(request.members[rank].pid)]
    if gone and (folder / "verdict.json").exists():
        kept_evidence.restore(folder)
        raise SamplingInterrupted(f"rank {gone[0]} ended during the look")
    kept_evidence.set_rest_aside(folder)
    stacks.rename(folder / "stacks")


def _keep(folder: Path, name: str, content: bytes) -> None:
    if content:
        private_files.write(folder / "machine" / name, content)
