"""What is known of each rank: process, exit, stacks, tracebacks, progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import ProcessExit, PythonTraceback, RecorderDump, StackDump
from unhang.evidence.stacks.torn_stacks import is_torn_off
from unhang.facts.model import RankFacts
from unhang.findings import Evidence, Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess

T = TypeVar("T")
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
    processes = _processes(evidence.manifests)
    by_pid = _owners((rank, known.pid) for rank, known in processes.items())
    stacks = _stacks_by_rank(evidence.stacks, by_pid)
    raised = _by_rank((one.rank, one) for one in tracebacks)
    exits = _by_rank((_owner_of(one, by_pid), one) for log in evidence.logs for one in log.exits)
    progress = _by_rank((one.rank, one) for log in evidence.logs for one in log.progress)
    last_lines = _by_rank((one.rank, one) for log in evidence.logs for one in log.last_lines)
    spoke = {rank for log in evidence.logs for rank in log.ranks}
    ranks = {}
    for rank in spoke.union(recordings, processes, stacks, raised, exits, progress, last_lines):
        known = processes.get(rank, RankFacts(rank))
        if rank in stacks:
            known = _with_stacks(known, stacks[rank])
        last = last_lines[rank][-1] if rank in last_lines else None
        exit_ = known.exit
        for told in exits.get(rank, ()):
            exit_ = _deciding_exit(exit_, told)
        ranks[rank] = replace(
            known,
            recording=recordings.get(rank),
            tracebacks=tuple(raised.get(rank, ())),
            exit=exit_ or _exit_from_stack(known),
            progress=tuple(progress.get(rank, ())),
            last_line=Evidence(Source(last.source.path, last.source.line), last.text, rank) if last else None,
            last_line_followed=last is not None and last.followed,
        )
    return ranks


def _by_rank(told: Iterable[tuple[int | None, T]]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = defaultdict(list)
    for rank, one in told:
        if rank is not None:
            found[rank].append(one)
    return dict(found)


def _owner_of(exit_: ProcessExit, by_pid: Mapping[int, int]) -> int | None:
    if exit_.rank is not None or exit_.pid is None:
        return exit_.rank
    return by_pid.get(exit_.pid)


def _exit_from_stack(facts: RankFacts) -> ProcessExit | None:
    """The signal that faulthandler wrote down: a launcher may ask how a rank ended before anybody else could."""
    stack = facts.stack
    number = FATAL_SIGNALS.get(stack.fatal) if stack is not None else None
    if stack is None or number is None:
        return None
    return ProcessExit(
        source=stack.source,
        rank=facts.rank,
        local_rank=facts.process.local_rank,
        pid=facts.pid,
        exit_code=-number,
        time_s=stack.time_s,
        host=facts.host,
        source_kind="faulthandler",
        text=f"Fatal Python error: {stack.fatal}",
    )


def _processes(manifests: Iterable[BundleManifest]) -> dict[int, RankFacts]:
    """What the watcher saw of each process; of several words on one rank the last, but an end that was told stays."""
    found: dict[int, RankFacts] = {}
    for manifest in manifests:
        for process in manifest.processes:
            before = found.get(process.rank)
            ended = _exit_of_process(process, manifest) or (before.exit if before is not None else None)
            found[process.rank] = RankFacts(
                process.rank,
                host=process.host,
                pid=process.pid,
                process=process,
                exit=ended,
                process_state=process.state,
                moving=process.moving,
            )
    return found


def _exit_of_process(process: RankProcess, manifest: BundleManifest) -> ProcessExit | None:
    if process.exit_code is None:
        return None
    return ProcessExit(
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


def _with_stacks(facts: RankFacts, stacks: list[StackDump]) -> RankFacts:
    own = [s for s in stacks if not _is_worker(s, facts.pid)]
    own = [s for s in own if s.threads] or own
    # Beside a process with its head, one without is not the rank's: a child, whose head reads otherwise.
    own = [s for s in own if s.pid is not None] or own
    workers = tuple(_latest_by_pid([s for s in stacks if s.threads and s not in own]))
    if not own:
        return replace(facts, worker_stacks=workers)
    # The later sample is the verdict's; without a time, the file names order the samples.
    # What a fatal signal left is the last of all: nobody samples a process after that.
    ordered = sorted(own, key=lambda s: (bool(s.fatal), s.time_s or 0.0, _sample_order(s.source.path)))
    whole = next((s for s in reversed(ordered[:-1]) if is_torn_off(ordered[-1], s)), None)
    if whole is not None:
        # What the later sample lost, the earlier one tells.
        ordered.remove(whole)
        ordered.append(whole)
    latest = ordered[-1]
    return replace(
        facts,
        stack=latest,
        earlier_stacks=tuple(ordered[:-1]),
        worker_stacks=workers,
        pid=facts.pid if facts.pid is not None else latest.pid,
    )


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


def _deciding_exit(known: ProcessExit | None, told: ProcessExit) -> ProcessExit:
    """The bundle's own word wins; of several the first attempt, and in it the first in time."""
    if known is None:
        return told
    if known.source_kind == "bundle":
        both_terminated = told.terminated_by_launcher and told.exit_code == known.exit_code == -SIGTERM
        return told if both_terminated else known
    return told if told.attempt < known.attempt else known
