"""Which of the ranks on this machine the user means; of several jobs of which none was named, that of this user, of
this folder, that stands still."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unhang.errors import UsageError
from unhang.watch.process_state.proc_processes import (
    PROC,
    Process,
    ProcessTable,
    backend_of,
    has_ended,
    pid_in_namespace,
)
from unhang.watch.process_state.rank_processes import LiveRank, guessed_ranks, is_launcher, ranks_of, spawned_ranks
from unhang.watch.process_state.stack_collection import ProcessSample, has_moved, sample_process

SAMPLE_PAUSE_S = 1.0
MAX_RANKS = 4
"""So many ranks of each job are sampled: a job of which one waits for another stands still on most of them."""


def stuck_jobs(jobs: Mapping[tuple[str, ...], Sequence[LiveRank]]) -> list[tuple[str, ...]]:
    """Jobs of which some rank did not move between two samples; those whose ranks all moved are left out."""
    looked_at = {job: ranks[:MAX_RANKS] for job, ranks in jobs.items()}
    first = _sample_ranks(looked_at)
    time.sleep(SAMPLE_PAUSE_S)
    second = _sample_ranks(looked_at)
    return [job for job, ranks in looked_at.items() if any(_is_stuck(first[r.pid], second[r.pid]) for r in ranks)]


def _sample_ranks(jobs: Mapping[tuple[str, ...], Sequence[LiveRank]]) -> dict[int, ProcessSample]:
    return {rank.pid: sample_process(rank.pid) for ranks in jobs.values() for rank in ranks}


def _is_stuck(first: ProcessSample, second: ProcessSample) -> bool:
    if not second.kernel.state:
        return False  # it is gone
    return has_moved([first, second], waits_asleep=backend_of(first.pid) != "nccl") is not True


_NO_RANK_ADVICE = "unhang diagnose PATH reads what a job left behind; unhang run -- COMMAND watches the next one"
StuckJobFinder: TypeAlias = Callable[[Mapping[tuple[str, ...], Sequence[LiveRank]]], Sequence[tuple[str, ...]]]
"""Which of several jobs stand still."""


@dataclass(frozen=True, slots=True)
class RankSelection:
    """The ranks to sample, all of one job. ``foreign``: pids of another user's processes that we may not read."""

    ranks: tuple[LiveRank, ...]
    launcher: int | None
    foreign: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    """Other jobs of this machine."""

    @property
    def is_unreadable(self) -> bool:
        """All of it belongs to another user: nothing but process states can be seen."""
        return len(self.foreign) == len(self.ranks)

    @property
    def gone(self) -> tuple[int, ...]:
        """Ranks that torchrun started on this machine and that have no process any more."""
        here = {rank.rank for rank in self.ranks}
        environment = self.ranks[0].environment
        node, size = environment.get("GROUP_RANK", ""), environment.get("LOCAL_WORLD_SIZE", "")
        if not (node.isdigit() and size.isdigit() and len(node + size) < 10):
            return ()
        expected = range(int(node) * int(size), (int(node) + 1) * int(size))
        # nodes of different sizes are numbered otherwise
        return tuple(rank for rank in expected if rank not in here) if all(r in expected for r in here) else ()

    @property
    def several_hosts(self) -> bool:
        """The job has ranks on other machines."""
        world = max((rank.world_size or 0 for rank in self.ranks), default=0)
        return world > len(self.ranks) + len(self.gone)


def select_ranks(machine: ProcessTable, pids: Sequence[int], *, stuck: StuckJobFinder = stuck_jobs) -> RankSelection:
    """The one job on this machine, or the one that ``pids`` (ranks, launchers, any process of theirs) belong to; of
    several, where none was named, the one that :func:`likely_jobs` leaves.

    Raises:
        UsageError: there is none; or several, none was named, and several may be meant.
    """
    ranks = ranks_of(machine)
    if pids:
        ranks = _of_pids(machine, ranks, pids)
    if not ranks:
        # those of other users only where the user names one of them
        ranks = spawned_ranks(machine, [] if pids else [p for p, s in machine.processes.items() if _is_readable(s)])
    if not ranks:
        raise _no_rank_error(machine)
    jobs = jobs_of(ranks)
    others: tuple[str, ...] = ()
    if len(jobs) > 1:
        likely, still = ([], []) if pids else likely_jobs(jobs, stuck)
        if len(likely) != 1:
            raise _several_jobs_error(jobs, still)
        others = tuple(job_name(mine, job in still) for job, mine in jobs.items() if job not in likely)
        ranks = jobs[likely[0]]
    launcher = next((rank.launcher for rank in ranks if rank.launcher is not None), None)
    foreign = tuple(rank.pid for rank in ranks if rank.process.environment is None)
    return RankSelection(ranks, launcher, foreign, others)


def jobs_of(ranks: Iterable[LiveRank]) -> dict[tuple[str, ...], tuple[LiveRank, ...]]:
    """The ranks of each job."""
    every = tuple(ranks)
    return {job: tuple(r for r in every if r.job == job) for job in sorted({rank.job for rank in every})}


def likely_jobs(
    jobs: Mapping[tuple[str, ...], Sequence[LiveRank]], stuck: StuckJobFinder = stuck_jobs
) -> tuple[list[tuple[str, ...]], Sequence[tuple[str, ...]]]:
    """Those that the user may mean: of this user, of these the ones of this folder, of these the ones that stand still,
    as far as there are any; and all of this user's that stand still."""
    mine = [job for job, ranks in jobs.items() if ranks[0].process.uid == os.geteuid()] or list(jobs)
    still = stuck({job: jobs[job] for job in mine}) if len(mine) > 1 else []
    here = [job for job in mine if _folder_of(jobs[job]).is_relative_to(Path.cwd())] or mine
    return [job for job in here if job in still] or here, still


def _folder_of(ranks: Sequence[LiveRank]) -> Path:
    """Where its command was started; no folder where that may not be seen."""
    with suppress(OSError):
        return (PROC / str(ranks[0].launcher or ranks[0].pid) / "cwd").readlink()
    return Path()


def permission_error(chosen: RankSelection) -> UsageError:
    """What to say where nothing but states was seen, and these tell nothing."""
    owner = chosen.ranks[0].process.owner
    top = chosen.launcher or chosen.ranks[0].pid
    whose = f"belongs to {owner}"
    if chosen.ranks[0].process.uid == os.geteuid():
        whose = f"runs with rights that {owner} alone does not give"
    return UsageError(
        f"this job {whose}: of its {len(chosen.ranks)} processes only the states can be seen, and none is stopped",
        next_step=permission_command([top]),
    )


def permission_command(pids: Sequence[int]) -> str:
    """The command for somebody who may sample them."""
    import shutil
    import sys

    if os.geteuid() == 0:
        # root without the right: a container, or a security module; its numbers are not those of the host
        return "docker run --cap-add=SYS_PTRACE …, or on the host: sudo unhang attach"
    beside = Path(sys.executable).with_name("unhang")
    program = str(beside) if beside.exists() else shutil.which("unhang") or "unhang"
    return " ".join(["sudo", program, "attach", *map(str, pids)])


def _of_pids(machine: ProcessTable, ranks: tuple[LiveRank, ...], pids: Sequence[int]) -> tuple[LiveRank, ...]:
    found: dict[int, LiveRank] = {}
    for pid in pids:
        if pid not in machine.processes:
            raise _no_process_error(machine, pid)
        line = {pid, *(p.pid for p in machine.ancestors(pid))}
        below = {pid, *(p.pid for p in machine.descendants(pid))}
        mine = [r for r in ranks if r.pid in below] or [r for r in ranks if r.pid in line]
        jobs = {rank.job for rank in mine}
        mine_too = {r.pid: r for r in ranks if r.job in jobs} if mine else _unreadable_ranks(machine, pid)
        if not mine_too:
            raise _not_a_rank_error(machine, pid)
        found |= mine_too
    return tuple(sorted(found.values(), key=lambda r: (r.job, r.rank)))


def _unreadable_ranks(machine: ProcessTable, pid: int) -> dict[int, LiveRank]:
    """Ranks of a job whose environments are closed to us: only the process tree tells."""
    line = [machine.processes[pid], *machine.ancestors(pid)]
    launcher = next((p for p in line if is_launcher(p.command) and p.is_python), None)
    if launcher is None:
        launcher = next((p for p in machine.descendants(pid) if is_launcher(p.command) and p.is_python), None)
    if launcher is None:
        family = {pid, *(p.pid for p in machine.descendants(pid))}
        parent = machine.processes[pid].parent
        return {r.pid: r for r in spawned_ranks(machine, family | {p.pid for p in machine.children(parent)})}
    return {rank.pid: rank for rank in guessed_ranks(machine, launcher.pid)}


def _no_process_error(machine: ProcessTable, pid: int) -> UsageError:
    inside = sorted(host for host in machine.processes if pid_in_namespace(host) == pid)
    if inside:
        numbers = ", ".join(map(str, inside))
        return UsageError(
            f"there is no process {pid} here; in a container's own numbering it is {numbers}",
            next_step=f"unhang attach {inside[0]}",
        )
    if has_ended(pid):
        return UsageError(f"process {pid} has ended and waits for its parent to notice", next_step=_next_step(machine))
    return UsageError(f"there is no process {pid} on this machine", next_step=_next_step(machine))


def _not_a_rank_error(machine: ProcessTable, pid: int) -> UsageError:
    process = machine.processes[pid]
    command = " ".join(process.command)[:60] or "a process of the kernel"
    if process.environment is None:
        return UsageError(
            f"process {pid} ({command}) belongs to {process.owner}, and you may not look into it",
            next_step=permission_command([pid]),
        )
    kind = "is no rank and started none" if process.is_python else "is no Python process and started no rank"
    return UsageError(f"process {pid} ({command}) {kind}", next_step=_next_step(machine))


def _next_step(machine: ProcessTable) -> str:
    """What to do next; never a command that only says that there is nothing."""
    ranks = ranks_of(machine) or spawned_ranks(machine, [p for p, s in machine.processes.items() if _is_readable(s)])
    if ranks:
        return f"unhang attach {ranks[0].launcher or ranks[0].pid}"
    return _NO_RANK_ADVICE


def _several_jobs_error(
    jobs: Mapping[tuple[str, ...], tuple[LiveRank, ...]], still: Sequence[tuple[str, ...]]
) -> UsageError:
    """``still``: those that stand still, as far as they were sampled."""
    names = "; ".join(job_name(mine, job in still) for job, mine in jobs.items())
    first = next(iter(jobs[still[0]] if still else next(iter(jobs.values()))))
    return UsageError(
        f"{len(jobs)} jobs run on this machine: {names}",
        next_step=f"unhang attach {first.launcher or first.pid}",
    )


def _no_rank_error(machine: ProcessTable) -> UsageError:
    closed = [p for p in machine.processes.values() if p.environment is None and p.pid != os.getpid()]
    launchers = [p for p in closed if is_launcher(p.command) and p.is_python]
    families = [machine.processes[r.launcher or r.pid] for r in spawned_ranks(machine, [p.pid for p in closed])]
    tops = {p.pid: p for p in (*launchers, *families)}
    if tops:
        who = ", ".join(sorted({p.owner for p in tops.values()}))
        first = next(iter(tops))
        jobs = "the only job" if len(tops) == 1 else f"all {len(tops)} jobs"
        return UsageError(
            f"{jobs} on this machine belong{'s' if len(tops) == 1 else ''} to {who}, and you may not look into "
            f"{'it' if len(tops) == 1 else 'them'}; `unhang attach {first}` sees process states only",
            next_step=permission_command([first]),
        )
    return UsageError(
        "no rank runs on this machine: no Python process has RANK and WORLD_SIZE in its environment",
        next_step=_NO_RANK_ADVICE,
    )


def _is_readable(process: Process) -> bool:
    return process.environment is not None


def job_name(ranks: Sequence[LiveRank], stands_still: bool) -> str:
    """How many ranks, what runs, whose it is and where, and whether it was seen to stand still."""
    command = " ".join(ranks[0].process.command)
    count = "1 rank" if len(ranks) == 1 else f"{len(ranks)} ranks"
    folder = _folder_of(ranks)
    about = [ranks[0].process.owner, f"pid {ranks[0].launcher or ranks[0].pid}"]
    about += [f"in {folder}"] if folder.parts else []
    about += ["stands still"] if stands_still else []
    return f"{count} of {command[:60]} ({', '.join(about)})"
