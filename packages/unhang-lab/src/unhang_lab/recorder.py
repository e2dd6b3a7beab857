"""Record one real job into a bundle: start it, wait for its moment, look at every rank, end it, write it down.

The layout of a bundle is documented in ``docs/bundle.md``.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from unhang.errors import UnhangError
from unhang.watch import private_files
from unhang.watch.process_state import py_spy
from unhang.watch.process_state.proc_processes import children_of, state_of
from unhang.watch.sampling.bundle_files import write_manifest
from unhang.wire.documents.bundle import BundleManifest, RankProcess
from unhang_lab.job import LabRank, TorchrunJob, enqueued_by_group, max_enqueued, run_job
from unhang_lab.worker import BEAT_INTERVAL_S

POLL_S = 0.1
DUMP_LIMIT_S = 6.0
BETWEEN_SAMPLES_S = 0.4
ENDING_LIMIT_S = 15.0
"""torchrun looks after its ranks every 1.5 s, and gives survivors time to close."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault from outside. ``kind`` is a signal's name (``KILL``) or ``freeze-transport``; it comes when every rank
    has enqueued ``after`` collectives. ``rank`` None means every rank."""

    kind: str
    after: int
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """What to run and when to look.

    ``moment``: ``stall`` looks when no rank moves any more, ``moving`` looks while they do, ``end`` waits for the end.
    ``after``: collectives a rank must have enqueued before either is believed. ``limit_s``: the job is ended then.
    """

    folder: Path
    script: str = "train.py"
    arguments: tuple[str, ...] = ()
    ranks: int = 4
    backend: str = "gloo"
    moment: Literal["stall", "moving", "end"] = "stall"
    after: int = 1
    still_s: float = 2.0
    limit_s: float = 60.0
    timeout_s: float | None = None
    injection: Injection | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class JobObservations:
    """What the looks brought home."""

    stalled_since_s: float | None = None
    taken_s: float = 0.0
    moving: dict[int, bool] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    ended_by_itself: bool = False


def record(plan: RecordingPlan, bundle: Path, *, tell: Tell = lambda _: None) -> Path:
    """Run ``plan`` and leave a bundle at ``bundle``, which must not hold anything yet. Returns ``bundle``.

    Raises:
        UnhangError: the folder is in use, or the job reached neither its moment nor its end within the limit.
        MissingExtra: there is no PyTorch.
    """
    bundle = bundle.resolve()
    if bundle.exists() and any(bundle.iterdir()):
        raise UnhangError(f"{bundle} already holds something; name another folder with --out.")
    private_files.make_folder(bundle)
    script = _place_source(plan, bundle)
    tell(f"starting {plan.ranks} ranks with torchrun ({plan.backend})")
    with run_job(script, plan.arguments, ranks=plan.ranks, backend=plan.backend, extra=plan.environment) as job:
        seen = _wait_and_sample(plan, job, bundle, tell)
        _keep_dumps(job, bundle)
        _keep_logs(job, bundle)
        manifest = _manifest(plan, job, seen, bundle)
        tell("ending the job")
    write_manifest(bundle, manifest)
    return bundle


def _place_source(plan: RecordingPlan, bundle: Path) -> Path:
    """Copy the program into the bundle; the job runs that copy, so frames, source and bundle agree."""
    for path in sorted(plan.folder.rglob("*.py")):
        if path.is_file():
            private_files.copy(path, bundle / "source" / path.relative_to(plan.folder))
    return bundle / "source" / plan.script


def _wait_and_sample(plan: RecordingPlan, job: TorchrunJob, bundle: Path, tell: Tell) -> JobObservations:
    seen = JobObservations()
    tell("training")
    waiting = _MomentWatch(plan, job)
    while not waiting.over():
        time.sleep(POLL_S)
    seen.ended_by_itself = waiting.ended
    seen.stalled_since_s = job.last_move_s() if waiting.stalled else None
    if not waiting.ended:
        tell("nobody moves any more: looking at every rank" if waiting.stalled else "looking at every rank")
        _sample_ranks(job, bundle, seen, twice_dumped=plan.moment == "moving")
    else:
        for rank in job.members():
            _write_own_stack(job, bundle, rank)
    job.note_ends()
    if seen.stalled_since_s is not None and job.ended_s and _ends_within(job, ENDING_LIMIT_S):
        # It stood still because it was falling over; the looks are kept, the stall was none.
        seen.stalled_since_s, seen.ended_by_itself = None, True
        job.note_ends()
    seen.taken_s = time.time()
    return seen


def _ends_within(job: TorchrunJob, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and job.launcher.poll() is None:
        time.sleep(POLL_S)
    return job.launcher.poll() is not None


class _MomentWatch:
    """Decides when the moment of a plan has come."""

    def __init__(self, plan: RecordingPlan, job: TorchrunJob) -> None:
        self.plan, self.job = plan, job
        self.deadline = time.monotonic() + plan.limit_s
        self.injected = plan.injection is None
        self.before: dict[int, bytes] = {}
        self.still_since = time.monotonic()
        self.ended = self.stalled = False

    def over(self) -> bool:
        """One look; True when the moment has come or the job has ended.

        Raises:
            UnhangError: neither happened within the plan's limit.
        """
        self.job.note_ends()
        if self.job.launcher.poll() is not None:
            self.ended = True
            return True
        if time.monotonic() > self.deadline:
            raise UnhangError(
                f"The job neither stalled nor ended within {self.plan.limit_s:.0f} s. Its launcher's last lines: "
                + self.job.launcher_log()[-400:].decode(errors="replace").strip()
            )
        now = self.job.positions()
        if now != self.before:
            self.before, self.still_since = now, time.monotonic()
        if not self.injected:
            self.injected = self._inject(now)
            self.still_since = time.monotonic()
            return False
        return self._moment_came(now)

    def _moment_came(self, now: dict[int, bytes]) -> bool:
        counts = [max_enqueued(position) for position in now.values()]
        if self.plan.moment == "end" or len(counts) < self.plan.ranks or max(counts) < self.plan.after:
            return False
        if self.plan.moment == "moving":
            return min(counts) >= self.plan.after
        self.stalled = not self._ending() and time.monotonic() - self.still_since >= self.plan.still_s
        return self.stalled

    def _ending(self) -> bool:
        """A rank is gone and torchrun is about to notice: that is an end, not a stall."""
        return bool(self.job.ended_s) and time.time() - min(self.job.ended_s.values()) < ENDING_LIMIT_S

    def _inject(self, now: dict[int, bytes]) -> bool:
        injection = self.plan.injection
        assert injection is not None
        if len(now) < self.plan.ranks or min(map(max_enqueued, now.values())) < injection.after:
            return False
        if injection.kind == "freeze-transport":
            # At one agreed moment, so that all ranks are between the same two collectives.
            order = f"{self.job.last_move_s() + _FREEZE_AFTER_MOVE_S:.3f}".encode()
            private_files.write(self.job.meeting / "ask" / "freeze-transport", order)
            return True
        for rank, member in self.job.members().items():
            if injection.rank is None or rank == injection.rank:
                os.kill(member.pid, getattr(signal, f"SIG{injection.kind}"))
        return True


_FREEZE_AFTER_MOVE_S = 0.9


def _sample_ranks(job: TorchrunJob, bundle: Path, seen: JobObservations, *, twice_dumped: bool) -> None:
    members, before = job.members(), job.positions()
    seen.states = {rank: state for rank, member in members.items() if (state := state_of(member.pid))}
    _ask_for_dumps(job, 1, frozenset(r for r, state in seen.states.items() if state != "T"))
    if twice_dumped:
        _keep_dumps(job, bundle, number=1, folder="dumps/earlier")
    first = _stacks(job, members, seen, native=False)
    if twice_dumped:
        _ask_for_dumps(job, 2, frozenset(seen.states))
    time.sleep(BETWEEN_SAMPLES_S)
    second = _stacks(job, members, seen, native=True)
    _write_stacks(job, bundle, first, second, seen)
    for rank, position in job.positions().items():
        if enqueued_by_group(position) != enqueued_by_group(before.get(rank, b"")):
            seen.moving[rank] = True


def _ask_for_dumps(job: TorchrunJob, number: int, expected: frozenset[int]) -> None:
    """Ask all ranks for their dumps; those that do not answer in time stay without."""
    # At one agreed moment, so that positions can be compared.
    together_s = time.time() + 2 * BEAT_INTERVAL_S
    private_files.write(job.meeting / "ask" / str(number), f"{together_s:.3f}".encode())
    deadline = time.monotonic() + DUMP_LIMIT_S
    wanted = {job.meeting / "dumps" / f"{number}.{rank}" for rank in expected}
    while time.monotonic() < deadline and not all(path.exists() for path in wanted):
        time.sleep(POLL_S / 2)


Process = tuple[int, int]
"""(rank, pid): a rank's own process or one of its children."""


def _stacks(
    job: TorchrunJob, members: Mapping[int, LabRank], seen: JobObservations, *, native: bool
) -> dict[Process, str]:
    """One look at every rank and its children (loader workers); ``native``: with C frames where a rank is silent."""
    targets: list[Process] = []
    for rank, member in sorted(members.items()):
        targets.append((rank, member.pid))
        targets += [(rank, child) for child in children_of(member.pid)]

    def look(target: Process) -> str | None:
        rank, pid = target
        own = pid == members[rank].pid
        silent = own and not (job.meeting / "dumps" / f"1.{rank}").exists()
        stopped = own and seen.states.get(rank) == "T"
        return py_spy.stacks_of(pid, stopped=stopped, native=native and silent and not stopped)

    with ThreadPoolExecutor(max_workers=2) as pool:
        texts = list(pool.map(look, targets))
    return {target: text for target, text in zip(targets, texts, strict=True) if text is not None}


def _write_stacks(
    job: TorchrunJob, bundle: Path, first: Mapping[Process, str], second: Mapping[Process, str], seen: JobObservations
) -> None:
    for rank, member in job.members().items():
        own = (rank, member.pid)
        if own in first and own in second:
            seen.moving[rank] = not py_spy.same_place(first[own], second[own])
        elif own not in second:
            _write_own_stack(job, bundle, rank)
    for (rank, pid), text in first.items():
        if pid == job.members()[rank].pid:
            private_files.write(bundle / "stacks" / f"rank_{rank}.1.txt", text.encode())
    for (rank, pid), text in second.items():
        worker = "" if pid == job.members()[rank].pid else f".worker_{pid}"
        private_files.write(bundle / "stacks" / f"rank_{rank}{worker}.txt", text.encode())


def _write_own_stack(job: TorchrunJob, bundle: Path, rank: int) -> None:
    """Use the stack the rank wrote itself: where py-spy may not look, and where torchrun ended the rank."""
    for name in ("1", "end"):
        own = job.meeting / "stacks" / f"{name}.{rank}"
        if own.exists() and own.stat().st_size:
            text = py_spy.without_our_thread(own.read_text(errors="replace"))
            private_files.write(bundle / "stacks" / f"rank_{rank}.txt", text.encode())


def _keep_dumps(job: TorchrunJob, bundle: Path, *, number: int | None = None, folder: str = "dumps") -> None:
    """Keep the dump of that number, or without one the latest each rank left."""
    names = ("end", "1", "2") if number is None else (str(number),)
    for rank in range(job.ranks):
        left = [path for name in names if (path := job.meeting / "dumps" / f"{name}.{rank}").exists()]
        if left:
            latest = max(left, key=lambda path: path.stat().st_mtime_ns)
            target = bundle / folder / f"rank_{rank}"
            private_files.copy(latest, target)
            times = latest.stat()
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _keep_logs(job: TorchrunJob, bundle: Path) -> None:
    for name, path in job.rank_logs():
        private_files.copy(path, bundle / "logs" / name)
    private_files.write(bundle / "logs" / "launcher.log", job.launcher_log())


def _manifest(plan: RecordingPlan, job: TorchrunJob, seen: JobObservations, bundle: Path) -> BundleManifest:
    return BundleManifest(
        world_size=plan.ranks,
        backend=plan.backend,
        torch_version=_torch_version(),
        stalled_since_s=seen.stalled_since_s,
        taken_s=seen.taken_s,
        limit_s=plan.timeout_s,
        source_root="source",
        source_prefix=str(bundle / "source"),
        processes=tuple(_process(job, seen, rank) for rank in sorted(job.members())),
    )


def _process(job: TorchrunJob, seen: JobObservations, rank: int) -> RankProcess:
    member = job.members()[rank]
    told = read_endings(job.launcher_log().decode(errors="replace"))
    ending = told.get(member.pid)
    gone = rank in job.ended_s or seen.ended_by_itself
    # torchrun lists every rank that failed or that it ended; one it does not list ended well.
    ended_well = ending is None and (bool(told) or job.launcher.returncode == 0)
    exit_code = ending.exit_code if ending is not None else 0 if ended_well else None
    return RankProcess(
        rank,
        local_rank=member.local_rank,
        pid=member.pid,
        host=member.host,
        exit_code=exit_code if gone else None,
        terminated_by_launcher=bool(gone and ending is not None and ending.by_launcher),
        killed_by_us=not gone,
        state="" if gone else seen.states.get(rank, ""),
        ended_s=job.ended_s.get(rank) if gone else None,
        moving=seen.moving.get(rank),
    )


def _torch_version() -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("torch")
    return ""


# As torch 2.13 says it first: "failed (exitcode: -9) local_rank: 1 (pid: 8127) of binary: /usr/bin/python3".
_FIRST = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)")
# In the table at the end: "  exitcode  : -15 (pid: 8108)  (SIGTERM)".
_TABLE = re.compile(r"^\s+exitcode\s+: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)", re.MULTILINE)
# To survivors: "Sending process 8108 closing signal SIGTERM".
_CLOSED = re.compile(r"Sending process (?P<pid>\d+) closing signal SIG(?P<name>[A-Z]+)")
_SIGTERM = -15


@dataclass(frozen=True, slots=True)
class ProcessEnding:
    """Exit code of one process (a signal is negative), and whether torchrun itself ended it."""

    exit_code: int
    by_launcher: bool


def read_endings(launcher_log: str) -> dict[int, ProcessEnding]:
    """Endings by process id."""
    closed = {int(match["pid"]) for match in _CLOSED.finditer(launcher_log)}
    codes = dict.fromkeys(closed, _SIGTERM)
    for pattern in (_TABLE, _FIRST):
        codes |= {int(match["pid"]): int(match["code"]) for match in pattern.finditer(launcher_log)}
    return {pid: ProcessEnding(code, pid in closed) for pid, code in codes.items()}
