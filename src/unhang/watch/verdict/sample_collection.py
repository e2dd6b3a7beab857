"""Take the evidence of one moment into the run folder: dumps, stacks twice, process states, logs, crash reports.

Runs in a short-lived child of the watcher, so that nothing in here can hold the watcher up.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.dump_requests import ask_dumps, is_silent, keep_as_earlier_dumps, wait_for_dumps
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.process_state.external_waits import find_external_waits
from unhang.watch.process_state.proc_processes import children_of, lives
from unhang.watch.process_state.py_spy import complete_from_record, dump_stacks, recorded_stack, same_place
from unhang.watch.process_state.sockets import SendQueues, unanswered_addresses
from unhang.watch.process_state.stack_collection import (
    KernelSample,
    ProcessSample,
    has_moved,
    is_idle,
    resume_if_stopped,
    sample_kernel,
)
from unhang.watch.sampling import exit_evidence, kept_evidence, kept_logs
from unhang.watch.sampling.bundle_files import write_manifest
from unhang.watch.sampling.checkpoint_search import STALL_LIMIT_S, CheckpointSearch
from unhang.watch.verdict.evidence_request import DEFAULT_SAMPLES, EvidenceRequest, SampleResult, SamplingInterrupted
from unhang.watch.verdict.sample_manifest import manifest_of
from unhang.wire.record import read_record, record_path
from unhang.wire.record_views import RecordView

DUMP_LIMIT_S = 2.0
STACKS_LIMIT_S = 6.0
PY_SPY_LIMIT_S = 2.0
MAX_CHILDREN = 8
"""At most so many children of a rank are sampled."""


RankPid = tuple[int, int]
"""(rank, pid): a rank's own process or one of its children."""


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
    kept_evidence.restore_dumps(folder, (rank for rank, member in request.members.items() if member.ended_ns))
    shutil.rmtree(stacks, ignore_errors=True)
    private_files.make_folder(stacks)
    sample_live_ranks(request, folder, stacks, taken)
    gone = [rank for rank in taken.states if not lives(request.members[rank].pid)]
    if gone and (folder / "bundle.json").exists():
        kept_evidence.restore(folder)
        raise SamplingInterrupted(f"rank {gone[0]} ended while it was sampled")
    kept_evidence.set_rest_aside(folder)
    stacks.rename(folder / "stacks")


def _keep(folder: Path, name: str, content: bytes) -> None:
    if content:
        private_files.write(folder / "machine" / name, content)


def sample_live_ranks(request: EvidenceRequest, folder: Path, stacks: Path, taken: SampleResult) -> None:
    """Dumps into ``folder``, stacks into ``stacks``; what else was seen into ``taken``."""
    living = {rank: member for rank, member in request.members.items() if member.ended_ns is None}
    for rank, member in living.items():
        taken.states[rank] = member.state
    before = _records(request, living)
    kernel = {rank: sample_kernel(member.pid) for rank, member in living.items()}
    families: dict[int, dict[int, KernelSample]] = {}
    asked_for = {rank: unanswered_addresses(member.pid) for rank, member in living.items()}
    expected = {
        rank: member
        for rank, member in living.items()
        if member.state != "T" and not member.view.closed and member.view.identity.armed_ns > 0
    }
    asked = ask_dumps(request.records, with_stacks=request.with_stacks)

    def wait(limit_s: float) -> None:
        taken.answered = wait_for_dumps(
            asked, lambda: _records(request, expected), limit_s=limit_s, with_stacks=request.with_stacks
        )

    earlier = _stacks(living, taken)
    if request.samples > DEFAULT_SAMPLES:
        taken.queues = SendQueues({rank: member.pid for rank, member in living.items()})
    for number in range(1, request.samples):
        _write_stacks(stacks, earlier, living, sample=number)
        wait(STACKS_LIMIT_S if request.with_stacks else DUMP_LIMIT_S)
        families = families or {rank: _family(member.pid) for rank, member in living.items()}
        if request.earlier_dumps and number == 1:
            keep_as_earlier_dumps(folder)
            asked = ask_dumps(request.records, with_stacks=request.with_stacks)
        if taken.queues is not None:
            taken.queues.watch(request.sample_pause_s)
        else:
            time.sleep(request.sample_pause_s)
        silent = frozenset(living) - taken.answered if number == request.samples - 1 else ()
        latest = _stacks(living, taken, native=silent)
        _compare_stacks(taken, living, earlier, latest)
        earlier = latest
    _write_stacks(stacks, earlier, living, sample=None)
    if request.earlier_dumps:
        wait(DUMP_LIMIT_S)
    after = _records(request, living)
    taken.views = after
    taken.unanswered = {rank: asked_for[rank] & unanswered_addresses(member.pid) for rank, member in living.items()}
    taken.awaits = {
        rank: find_external_waits(member.pid, earlier.get((rank, member.pid), "")) for rank, member in living.items()
    }
    seen = {rank for rank, pid in earlier if pid == living[rank].pid}
    _compare_records(taken, seen, before, after)
    taken.not_seen = {rank: reason for rank, reason in taken.not_seen.items() if rank not in seen}
    for rank in taken.not_seen:
        _compare_kernel(taken, living[rank], kernel[rank])
    taken.idle = {rank for rank, family in families.items() if all(map(_is_idle, family, family.values()))}
    if request.stalled_since_s is not None:
        kept_evidence.restore_dumps(folder, _silent_waiters(taken, living), since_s=request.stalled_since_s)
    _complete_torn_stacks(stacks, living, earlier, after)
    current = {r: view for r, view in after.items() if taken.states[r] == "T" or not is_silent(view)}
    taken.from_record = _write_recorded_stacks(stacks, living, seen, current)


def _compare_stacks(
    taken: SampleResult, living: Mapping[int, JobRank], earlier: Mapping[RankPid, str], latest: Mapping[RankPid, str]
) -> None:
    for rank, member in living.items():
        own = (rank, member.pid)
        if own in earlier and own in latest and not same_place(earlier[own], latest[own]):
            taken.moving[rank] = True
        elif own in earlier and own in latest:
            taken.moving.setdefault(rank, False)


def _compare_records(
    taken: SampleResult, seen: set[int], before: Mapping[int, RecordView], after: Mapping[int, RecordView]
) -> None:
    for rank in before.keys() & after.keys():
        taken.beats[rank] = after[rank].beats > before[rank].beats
        if _counts(before[rank]) != _counts(after[rank]):
            taken.moving[rank] = True
        elif rank not in seen and not is_silent(after[rank]):
            taken.moving[rank] = before[rank].stack_hash != after[rank].stack_hash


def _compare_kernel(taken: SampleResult, member: JobRank, before: KernelSample) -> None:
    """Its stack may not be sampled: its state, what it waits in and the processor time it uses tell a little."""
    after = sample_kernel(member.pid)
    taken.kernel[member.rank] = (before, after)
    answer = has_moved(
        [ProcessSample(member.pid, 0.0, before), ProcessSample(member.pid, 1.0, after)], waits_asleep=True
    )
    if answer is not None:
        taken.moving.setdefault(member.rank, answer)


def _silent_waiters(taken: SampleResult, living: Mapping[int, JobRank]) -> list[int]:
    """Ranks that did not answer, in a call that has not come back when their records spoke last."""
    silent = living.keys() - taken.answered
    return [rank for rank in silent if any(group.enqueued > group.completed for group in living[rank].view.groups)]


def _family(pid: int) -> dict[int, KernelSample]:
    """The process and its children, once they have written the dumps that we asked for."""
    return {one: sample_kernel(one) for one in (pid, *children_of(pid)[:MAX_CHILDREN])}


def _is_idle(pid: int, before: KernelSample) -> bool:
    return is_idle((ProcessSample(pid, 0.0, before), ProcessSample(pid, 1.0, sample_kernel(pid))))


def _records(request: EvidenceRequest, living: Mapping[int, JobRank]) -> dict[int, RecordView]:
    found = {}
    for rank, member in living.items():
        view = read_record(record_path(request.records, member.view.identity.attempt, member.pid))
        if view is not None:
            found[rank] = view
    return found


def _counts(view: RecordView) -> list[tuple[str, int]]:
    """Enqueued collectives; Gloo's completed counts may change while nothing moves."""
    return [(group.name, group.enqueued) for group in view.groups]


def _stacks(
    living: Mapping[int, JobRank], taken: SampleResult, native: frozenset[int] | tuple[()] = ()
) -> dict[RankPid, str]:
    """One sample of every rank and its children (loader workers), the ones of silent ranks with C frames."""
    targets: list[RankPid] = []
    for rank, member in sorted(living.items()):
        targets.append((rank, member.pid))
        targets += [(rank, child) for child in children_of(member.pid)[:MAX_CHILDREN]]

    def stack_of(target: RankPid) -> str | None:
        rank, pid = target
        own = pid == living[rank].pid
        stopped = taken.states.get(rank) == "T"
        if own and rank in native and not stopped:
            text = dump_stacks(pid, native=True, limit_s=PY_SPY_LIMIT_S).text
            resume_if_stopped(pid, taken.states[rank])  # should py-spy have run out of time while it held the process
            if text is not None:
                return text
        looked = dump_stacks(pid, stopped=True, limit_s=PY_SPY_LIMIT_S)
        if own and looked.text is None:
            taken.not_seen[rank] = looked.refused
        return looked.text

    with ThreadPoolExecutor(max_workers=2) as pool:
        texts = list(pool.map(stack_of, targets))
    return {target: text for target, text in zip(targets, texts, strict=True) if text is not None}


def _write_stacks(
    stacks: Path, found: Mapping[RankPid, str], living: Mapping[int, JobRank], *, sample: int | None
) -> None:
    """Write ``found`` below ``stacks``. ``sample``: its number, None for the last, the only one with children."""
    for (rank, pid), text in found.items():
        own = pid == living[rank].pid
        if not own and sample is not None:
            continue
        name = f"rank_{rank}" + (f".{sample}" if sample is not None else "" if own else f".worker_{pid}")
        private_files.write_text(stacks / f"{name}.txt", text)


def _complete_torn_stacks(
    stacks: Path, living: Mapping[int, JobRank], found: Mapping[RankPid, str], views: Mapping[int, RecordView]
) -> None:
    """A rank in full flight may be seen torn at every try; its own record never is."""
    for (rank, pid), text in found.items():
        view = views.get(rank)
        if view is None or pid != living[rank].pid or is_silent(view):
            continue
        whole = complete_from_record(text, view, pid)
        if whole is not None:
            private_files.write_text(stacks / f"rank_{rank}.txt", whole)


def _write_recorded_stacks(
    stacks: Path, living: Mapping[int, JobRank], seen: set[int], views: Mapping[int, RecordView]
) -> set[int]:
    """Where sampling from outside is not allowed, the rank's own record says where its training thread stands.

    A stopped one stands where its record said it stood. Not that of a silent rank: what it said last may be long past.
    Returns the ranks whose records say so.
    """
    told = set()
    for rank, view in views.items():
        if rank in seen or not view.stack:
            continue
        told.add(rank)
        text = recorded_stack(view, living[rank].pid)
        private_files.write_text(stacks / f"rank_{rank}.txt", text)
    return told
