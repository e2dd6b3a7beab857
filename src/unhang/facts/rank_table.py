"""What is known of each rank: process, exit, stacks, tracebacks, progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LogReading, ProcessExit, PythonTraceback, RecorderDump, StackDump
from unhang.evidence.own_files.run_items import BundleManifest, RankProcess
from unhang.evidence.stacks.torn_stacks import is_torn_off
from unhang.facts.model import RankFacts
from unhang.findings import Evidence, Source

SIGTERM = 15
FATAL_SIGNALS = {
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Floating-point exception": 8,
    "Illegal instruction": 4,
    "Segmentation fault": 11,
}
"""As faulthandler of CPython 3.10 to 3.14 calls them (Modules/faulthandler.c)."""


def build_ranks(
    evidence: EvidenceSet, recordings: Mapping[int, RecorderDump], tracebacks: Iterable[PythonTraceback]
) -> dict[int, RankFacts]:
    """One :class:`RankFacts` for every rank that left anything."""
    ranks: dict[int, RankFacts] = {}

    def facts_of(rank: int) -> RankFacts:
        return ranks.setdefault(rank, RankFacts(rank))

    for rank, recording in recordings.items():
        facts_of(rank).recording = recording
    for manifest in evidence.manifests:
        for process in manifest.processes:
            _take_process(facts_of(process.rank), process, manifest)
    by_pid = _owners((rank, facts.pid) for rank, facts in ranks.items())
    for rank, stacks in _stacks_by_rank(evidence.stacks, by_pid).items():
        _take_stacks(facts_of(rank), stacks)
    for traceback in tracebacks:
        if traceback.rank is not None:
            facts = facts_of(traceback.rank)
            facts.tracebacks = (*facts.tracebacks, traceback)
    _take_logs(evidence.logs, facts_of, by_pid)
    for facts in ranks.values():
        if facts.exit is None:
            facts.exit = _exit_from_stack(facts)
    return ranks


def _exit_from_stack(facts: RankFacts) -> ProcessExit | None:
    """The signal that faulthandler wrote down: a launcher may ask how a rank ended before anybody else could."""
    stack = facts.stack
    number = FATAL_SIGNALS.get(stack.fatal) if stack is not None else None
    if stack is None or number is None:
        return None
    return ProcessExit(
        source=stack.source,
        rank=facts.rank,
        local_rank=facts.local_rank,
        pid=facts.pid,
        exit_code=-number,
        time_s=stack.time_s,
        host=facts.host,
        source_kind="faulthandler",
        text=f"Fatal Python error: {stack.fatal}",
    )


def _take_process(facts: RankFacts, process: RankProcess, manifest: BundleManifest) -> None:
    facts.pid = process.pid
    facts.host = process.host
    facts.local_rank = process.local_rank
    facts.process_state = process.state
    facts.moving = process.moving
    facts.beats = process.beats
    facts.ended_by_recorder = process.killed_by_us
    facts.marked, facts.guard_wait = process.marked, process.guard_wait
    facts.unanswered, facts.awaits = process.unanswered, process.awaits
    facts.addresses, facts.piled_up, facts.partner = process.addresses, process.piled_up, process.partner
    if process.exit_code is None:
        return
    facts.exit = ProcessExit(
        source=manifest.source,
        rank=process.rank,
        local_rank=process.local_rank,
        pid=process.pid,
        exit_code=process.exit_code,
        time_s=process.ended_s,
        host=process.host,
        source_kind="bundle",
        terminated_by_launcher=process.terminated_by_launcher,
        text=f"rank {process.rank} (pid {process.pid}) ended with {process.exit_code}",
    )


def assign_ranks_by_process(
    tracebacks: Iterable[PythonTraceback], manifests: Iterable[BundleManifest]
) -> Iterator[PythonTraceback]:
    """With the rank of the process that raised each: a log that many write to names processes, not ranks."""
    owners = _owners((process.rank, process.pid) for manifest in manifests for process in manifest.processes)
    for one in tracebacks:
        rank = owners.get(one.pid) if one.rank is None and one.pid is not None else None
        yield one if rank is None else replace(one, rank=rank)


def _owners(pids: Iterable[tuple[int, int | None]]) -> dict[int, int]:
    """``{pid: rank}``, without the numbers that processes of several hosts share."""
    owners: dict[int, int] = {}
    shared: set[int] = set()
    for rank, pid in pids:
        if pid is not None and owners.setdefault(pid, rank) != rank:
            shared.add(pid)
    return {pid: rank for pid, rank in owners.items() if pid not in shared}


def _stacks_by_rank(stacks: Iterable[StackDump], by_pid: Mapping[int, int]) -> dict[int, list[StackDump]]:
    """Stacks of the ranks' own processes; a dump without a rank is placed by its pid."""
    found: dict[int, list[StackDump]] = defaultdict(list)
    for stack in stacks:
        rank = by_pid.get(stack.pid) if stack.pid is not None else None
        if rank is None:
            rank = stack.rank
        if rank is not None:
            found[rank].append(stack)
    return found


def _take_stacks(facts: RankFacts, stacks: list[StackDump]) -> None:
    workers = [s for s in stacks if _is_worker(s, facts.pid)]
    facts.worker_stacks = tuple(_latest_by_pid(workers))
    own = [s for s in stacks if not _is_worker(s, facts.pid)]
    own = [s for s in own if s.threads] or own
    if not own:
        return
    # The later sample is the verdict's; without a time, the file names order the samples.
    # What a fatal signal left is the last of all: nobody samples a process after that.
    ordered = sorted(own, key=lambda s: (bool(s.fatal), s.time_s or 0.0, _sample_order(s.source.path)))
    whole = next((s for s in reversed(ordered[:-1]) if is_torn_off(ordered[-1], s)), None)
    if whole is not None:
        # What the later sample lost, the earlier one tells.
        ordered.remove(whole)
        ordered.append(whole)
    facts.stack = ordered[-1]
    facts.earlier_stacks = tuple(ordered[:-1])
    if not facts.process_state:
        facts.process_state = facts.stack.process_state
    if facts.pid is None:
        facts.pid = facts.stack.pid


def _is_worker(stack: StackDump, rank_pid: int | None) -> bool:
    """A child of the rank: another pid than the rank's, or a loader's worker loop at its root."""
    if rank_pid is not None and stack.pid is not None:
        return stack.pid != rank_pid
    return any(frame.function == "_worker_loop" for thread in stack.threads for frame in thread.frames)


def _latest_by_pid(stacks: list[StackDump]) -> list[StackDump]:
    latest: dict[tuple[int | None, str], StackDump] = {}
    for stack in sorted(stacks, key=lambda s: (s.time_s or 0.0, _sample_order(s.source.path))):
        latest[stack.pid, "" if stack.pid is not None else stack.source.path] = stack
    return list(latest.values())


def _sample_order(path: str) -> tuple[int, str]:
    """``rank_3.1.txt`` is an earlier sample than ``rank_3.txt``."""
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return (0 if stem.rsplit(".", 1)[-1].isdigit() else 1, path)


def _take_logs(logs: Iterable[LogReading], facts_of: Callable[[int], RankFacts], by_pid: Mapping[int, int]) -> None:
    for log in logs:
        for rank in log.ranks:
            facts_of(rank)
        for exit_ in log.exits:
            owner = exit_.rank
            if owner is None and exit_.pid is not None:
                owner = by_pid.get(exit_.pid)
            if owner is not None:
                _take_exit(facts_of(owner), exit_)
        for progress in log.progress:
            if progress.rank is not None:
                facts = facts_of(progress.rank)
                facts.progress = (*facts.progress, progress)
        for last in log.last_lines:
            if last.rank is not None:
                known = facts_of(last.rank)
                known.last_line = Evidence(Source(last.source.path, last.source.line), last.text, last.rank)
                known.last_line_followed = last.followed


def _take_exit(facts: RankFacts, exit_: ProcessExit) -> None:
    """The bundle's own word wins; of several the first attempt, and in it the first in time."""
    if facts.exit is None:
        facts.exit = exit_
        return
    if facts.exit.source_kind == "bundle":
        if exit_.terminated_by_launcher and exit_.exit_code == facts.exit.exit_code == -SIGTERM:
            facts.exit = exit_
        return
    if exit_.attempt < facts.exit.attempt:
        facts.exit = exit_
