"""Take the evidence of a live job into a bundle folder: samples spread over time, and what the job itself can give."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from unhang.check.devices.nvidia_smi import nvidia_smi_command
from unhang.errors import UsageError
from unhang.evidence.items import StackDump
from unhang.host.machine import Machine
from unhang.program.launch.command_words import launcher_options
from unhang.watch import private_files
from unhang.watch.attach.collected_evidence import CollectedEvidence, write_manifest
from unhang.watch.attach.rank_selection import RankSelection
from unhang.watch.attach.sources import debug_server, recorder_files
from unhang.watch.attach.sources import nccl_ras as ras
from unhang.watch.dump_requests import keep_as_earlier_dumps
from unhang.watch.nodes.transport.node_discovery import node_name
from unhang.watch.process_state.part_processes import parts_beside
from unhang.watch.process_state.proc_processes import PROC, Process, ProcessTable, path_in_container
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.stack_collection import ProcessSample, has_moved, resample_process, sample_process
from unhang.watch.run_folder import create_private_folder, free_place
from unhang.watch.sampling.bundle_files import holds_something
from unhang.watch.sampling.kept_logs import LAUNCHER_LOGS, keep_logs, rank_log

LIMIT_S = 5.0
"""A card that fell off the bus can hold ``nvidia-smi`` up for minutes."""


SAMPLE_PAUSES_S = (0.4, 0.9)
"""Unequal, so that a job with a steady step is not met twice at the same point."""
MAX_SAMPLES, MIN_SAMPLES, MOVING_SAMPLES = 20, 2, 12
SAMPLE_INTERVAL_S = 1.2
MAX_CHILDREN = 16
"""At most so many children of a rank are sampled."""
PULL_LIMIT_S = 6.0


def collect_evidence(
    chosen: RankSelection,
    machine: ProcessTable,
    folder: Path,
    *,
    for_s: float = 0.0,
) -> CollectedEvidence:
    """Sample every rank and its loader workers at least twice, pull what the job can give, and write the bundle."""
    taken = CollectedEvidence(folder, chosen)
    taken.workers = {rank.pid: _workers(machine, rank) for rank in chosen.ranks}
    taken.parts = parts_beside(machine, [rank.process for rank in chosen.ranks])
    with ThreadPoolExecutor(max_workers=6) as pool:
        pulls = [pool.submit(_pull_recorders, taken, machine), pool.submit(_pull_ras, taken, for_s)]
        cards = pool.submit(Machine().command, nvidia_smi_command(), LIMIT_S)
        for number, pause_s in enumerate(_pauses(taken, for_s)):
            try:
                time.sleep(pause_s)
            except KeyboardInterrupt:
                if number < MIN_SAMPLES:
                    raise
                break  # long samples may be cut short: what was seen is judged
            _sample_processes(taken, sparing=number >= MIN_SAMPLES)
        _sample_native_stacks(taken)
        for pull in pulls:
            pull.result()
        if for_s >= SAMPLE_INTERVAL_S and taken.dumps:
            keep_as_earlier_dumps(taken.folder)
            taken.dumps.clear()
            _pull_recorders(taken, machine)
        answer = cards.result().found
    if answer is not None and answer.text:
        private_files.write_text(folder / "logs" / "nvidia-smi.txt", answer.text)
    logs = _logs(machine, chosen.ranks, chosen.launcher)
    keep_logs(((path, name) for path, name in logs if holds_something(path)), folder)
    _write_stacks(taken)
    taken.taken_s = time.time()
    write_manifest(taken, {"source_root": "source", "source_prefix": "/"})
    return taken


def _pauses(taken: CollectedEvidence, for_s: float) -> Iterator[float]:
    """A job whose ranks all move is looked at for longer: whether they wait for one of them, few looks cannot tell."""
    yield 0.0
    if for_s <= sum(SAMPLE_PAUSES_S):
        yield from SAMPLE_PAUSES_S
        for number in range(MOVING_SAMPLES - len(SAMPLE_PAUSES_S) - 1):
            if not all(taken.moving.get(rank.rank) for rank in taken.chosen.ranks):
                return
            yield SAMPLE_PAUSES_S[0] * (0.5 + number * 0.618 % 1)
        return
    more = min(MAX_SAMPLES, max(3, int(for_s / SAMPLE_INTERVAL_S))) - 1
    for number in range(more):
        yield for_s / more * (0.8 if number % 2 else 1.2 if number + 1 < more or more % 2 == 0 else 1.0)


def _workers(machine: ProcessTable, rank: LiveRank) -> tuple[Process, ...]:
    """Python processes below a rank: loader workers and what else it started; no rank of its own."""
    mine = (p for p in machine.descendants(rank.pid) if p.is_python)
    return tuple(p for p in mine if "resource_tracker" not in " ".join(p.command[:4]))[:MAX_CHILDREN]


def _sample_processes(taken: CollectedEvidence, *, sparing: bool) -> None:
    """Sample all of them. ``sparing``: where the kernel says that nothing happened since the sample before, its word
    is enough."""
    targets = [rank.pid for rank in taken.chosen.ranks]
    targets += [one.pid for beside in (*taken.workers.values(), taken.parts) for one in beside]

    def sample(pid: int) -> ProcessSample:
        before = taken.samples.get(pid, [])
        return resample_process(before[-1]) if sparing and before else sample_process(pid)

    with ThreadPoolExecutor(max_workers=min(8, 2 * (os.cpu_count() or 1))) as pool:
        for found in pool.map(sample, targets):
            taken.samples.setdefault(found.pid, []).append(found)
    _judge_movement(taken)


def _judge_movement(taken: CollectedEvidence) -> None:
    asleep = not taken.uses_cards
    for rank in taken.chosen.ranks:
        answer = has_moved(taken.samples.get(rank.pid, []), waits_asleep=asleep)
        if answer is not None:
            taken.moving[rank.rank] = answer


def _sample_native_stacks(taken: CollectedEvidence) -> None:
    """C frames of ranks that stand still outside of any collective: what holds them up is below Python."""
    for rank in taken.chosen.ranks:
        samples = taken.samples.get(rank.pid, [])
        if taken.moving.get(rank.rank) or not samples or samples[-1].dump is None or samples[-1].kernel.state in "Tt":
            continue
        if not _is_in_communication(samples[-1].dump):
            deeper = sample_process(rank.pid, native=True)
            if deeper.native:
                samples.append(deeper)
    _judge_movement(taken)


def _is_in_communication(dump: StackDump) -> bool:
    return any("torch/distributed/" in frame.file for thread in dump.threads for frame in thread.frames[:8])


def _pull_recorders(taken: CollectedEvidence, machine: ProcessTable) -> None:
    """Dumps: asked for through pipe and debug server; else what lies there already."""
    ranks = taken.chosen.ranks
    since_s = time.time()
    asked = [rank for rank in ranks if recorder_files.trigger_dump(rank)]
    owned = {rank.pid for rank in ranks} | {p.pid for rank in ranks for p in machine.descendants(rank.pid)}
    for number, answer in debug_server.ask_debug_server(ranks, sorted(owned), limit_s=PULL_LIMIT_S).items():
        if answer.dump is not None:
            name = f"rank_{number}.json" if answer.dump.lstrip()[:1] in b"{[" else f"rank_{number}"
            private_files.write(taken.folder / "dumps" / name, answer.dump)
            taken.dumps.add(number)
        elif answer.empty:
            taken.empty_dumps.add(number)
        if answer.stacks is not None:
            private_files.write_text(taken.folder / "stacks" / f"rank_{number}.0.txt", answer.stacks)
    if asked:
        recorder_files.wait_for_dumps(asked, since_s, limit_s=PULL_LIMIT_S)
    for rank in ranks:
        path = recorder_files.newest_dump(rank) if rank.rank not in taken.dumps else None
        if path is not None and recorder_files.copy_dump(path, taken.folder / "dumps" / f"rank_{rank.rank}"):
            taken.dumps.add(rank.rank)


def _pull_ras(taken: CollectedEvidence, for_s: float) -> None:
    """Asked twice: counts that differ mean a stall only when they stand still."""
    address = ras.ras_address(taken.chosen.ranks)
    if address is None:
        return
    reports = []
    for number in range(2):
        if number:
            time.sleep(max(1.0, min(for_s, 10.0)))
        report = ras.query_ras(address, limit_s=PULL_LIMIT_S)
        if report is None:
            break
        reports.append(report)
        private_files.write_text(taken.folder / "logs" / f"nccl_ras.{number + 1}.txt", report.text)
    taken.ras = tuple(reports)


def _write_stacks(taken: CollectedEvidence) -> None:
    for rank in taken.chosen.ranks:
        samples = [sample for sample in taken.samples.get(rank.pid, []) if sample.stack is not None]
        for number, sample in enumerate(samples, 1):
            name = f"rank_{rank.rank}.json" if number == len(samples) else f"rank_{rank.rank}.{number}.json"
            private_files.write_text(taken.folder / "stacks" / name, sample.stack or b"")
        for worker in taken.workers.get(rank.pid, ()):
            seen = [sample for sample in taken.samples.get(worker.pid, []) if sample.stack is not None]
            if seen:
                name = f"rank_{rank.rank}.worker_{worker.pid}.json"
                private_files.write_text(taken.folder / "stacks" / name, seen[-1].stack or b"")
    for part in taken.parts:
        about = {"pid": part.pid, "command_line": " ".join(part.command)}
        for number, stack in enumerate((one.stack for one in taken.samples.get(part.pid, []) if one.stack), 1):
            threads = [{**thread, "process_info": about} for thread in json.loads(stack)]
            private_files.write_text(taken.folder / "stacks" / f"part_{part.pid}.{number}.json", json.dumps(threads))


STREAMS = {"stdout": 1, "stderr": 2}


def _logs(machine: ProcessTable, ranks: Sequence[LiveRank], launcher: int | None) -> Iterator[tuple[Path, str]]:
    """Files behind standard output and error, and the launcher's own folder of logs, for :func:`keep_logs`."""
    if launcher is not None:
        yield from ((PROC / str(launcher) / "fd" / str(n), LAUNCHER_LOGS[stream]) for stream, n in STREAMS.items())
    for rank in ranks:
        local = rank.local_rank if rank.local_rank is not None else rank.rank
        for stream, number in STREAMS.items():
            yield PROC / str(rank.pid) / "fd" / str(number), rank_log(rank.attempt, local, stream)
    if launcher is not None:
        yield from _launcher_files(machine, launcher, {rank.attempt for rank in ranks})


def _launcher_files(machine: ProcessTable, launcher: int, attempts: set[int]) -> Iterator[tuple[Path, str]]:
    """Logs under ``--log-dir``; only of the newest run in that folder."""
    process = machine.processes.get(launcher)
    command = process.command if process is not None else ()
    options = launcher_options("torchrun", command) or launcher_options("accelerate", command) or {}
    named = options.get("log_dir", "")
    if not named:
        return
    inside = PROC / str(launcher) / "cwd" / named
    root = path_in_container(launcher, named) if named.startswith("/") else inside
    for attempt in sorted(attempts):
        with suppress(OSError):
            runs = sorted(root.glob(f"*/attempt_{attempt}"), key=lambda path: path.stat().st_mtime)
            for path in sorted(runs[-1].glob("*/std*.log"))[:4096] if runs else ():
                yield path, "/".join(path.parts[-3:])


def create_bundle_folder(named: Path | None, *, several_hosts: bool) -> Path:
    """A new private folder: ``named``, ``named/HOST`` where the job has ranks on other hosts, or ``unhang-runs/TIME``.

    Raises:
        UsageError: it holds something already, or cannot be made.
    """
    if named is not None:
        return create_private_folder(named.absolute() / (node_name(os.environ) if several_hosts else ""))
    try:
        return create_private_folder(free_place(f"attach-{time.strftime('%Y%m%d-%H%M%S')}"))
    except UsageError:
        # the folder we stand in takes no files; the evidence must not be lost for that
        return Path(tempfile.mkdtemp(prefix="unhang-attach-"))
