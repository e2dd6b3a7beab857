"""Which processes of this machine are ranks of a job: not its launchers, loader workers or resource trackers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unhang.watch.process_state.proc_processes import Process, ProcessTable, has_group_threads, has_mapped

_NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "mpirun")
_SIDE_PROCESSES = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "_inductor/compile_worker")
MAX_RANKS = 1_000_000


@dataclass(frozen=True, slots=True)
class EnvironmentRank:
    """What a process's environment says it is. Children inherit it: having it does not make a rank."""

    rank: int
    world_size: int
    local_rank: int | None
    source_kind: str
    job: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveRank:
    """A rank that runs on this machine. ``guessed``: its number is taken from the order in which ranks started."""

    process: Process
    rank: int
    world_size: int | None
    local_rank: int | None
    attempt: int
    launcher: int | None
    job: tuple[str, ...]
    guessed: bool = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def environment(self) -> Mapping[str, str]:
        """As it was started; empty where we may not read it."""
        return self.process.environment or {}


def ranks_of(machine: ProcessTable) -> tuple[LiveRank, ...]:
    """Every rank whose environment we may read, by rank; of processes that claim one rank the newest."""
    named = {pid: me for pid, p in machine.processes.items() if (me := identity_of(p)) is not None}
    tops = [machine.processes[pid] for pid in named if _is_top(pid, named, machine)]
    live = [_live(_working(top, named, machine), named[top.pid], machine) for top in tops if top.is_python]
    newest: dict[tuple[tuple[str, ...], int], LiveRank] = {}
    for rank in sorted(live, key=lambda r: (r.process.started_ticks, r.pid)):
        newest[rank.job, rank.rank] = rank
    return tuple(sorted(newest.values(), key=lambda r: (r.job, r.rank)))


def identity_of(process: Process) -> EnvironmentRank | None:
    """The rank its environment names; None for launchers' and libraries' side processes."""
    environment = process.environment
    if environment is None or _is_side_process(process.command):
        return None
    for rank_name, world_name, local_name in _NAMES:
        rank, world = _whole(environment.get(rank_name)), _whole(environment.get(world_name))
        if rank is None or world is None or not rank < world <= MAX_RANKS:
            continue
        job = tuple(environment.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"))
        return EnvironmentRank(rank, world, _whole(environment.get(local_name)), rank_name, (*job, str(world)))
    return None


def is_launcher(command: Iterable[str]) -> bool:
    """A command that starts ranks."""
    words = [word.rsplit("/", 1)[-1] for word in command][:6]
    return any(word in LAUNCHERS or word.startswith("torchrun") for word in words)


def guessed_ranks(machine: ProcessTable, launcher: int) -> tuple[LiveRank, ...]:
    """Children of a launcher whose environments we may not read, numbered as they started."""
    children = [p for p in machine.children(launcher) if p.is_python and not _is_side_process(p.command)]
    return tuple(
        LiveRank(process, number, len(children), number, 0, launcher, ("", "", "", str(launcher)), guessed=True)
        for number, process in enumerate(children)
    )


def spawned_ranks(machine: ProcessTable, among: Iterable[int]) -> tuple[LiveRank, ...]:
    """Ranks whose program started them itself (``torch.multiprocessing.spawn``, a notebook): no environment tells them,
    but their threads do. Numbered as they started."""
    joined = [machine.processes[pid] for pid in among if machine.processes[pid].is_python and has_group_threads(pid)]
    families: dict[int, list[Process]] = {}
    for process in sorted(joined, key=lambda p: (p.started_ticks, p.pid)):
        families.setdefault(process.parent, []).append(process)
    return tuple(
        LiveRank(process, number, len(family), number, 0, parent, ("", "", "", f"spawned by {parent}"), guessed=True)
        for parent, family in sorted(families.items())
        if len(family) > 1
        for number, process in enumerate(family)
    )


def _is_side_process(command: tuple[str, ...]) -> bool:
    return any(name in word for word in command[:4] for name in _SIDE_PROCESSES)


def _is_top(pid: int, named: Mapping[int, EnvironmentRank], machine: ProcessTable) -> bool:
    """The first Python process with this identity, and no launcher of others."""
    process, me = machine.processes[pid], named[pid]
    if not process.is_python or is_launcher(process.command):
        return False
    if any(named[below.pid] != me for below in machine.descendants(pid) if below.pid in named and below.is_python):
        return False
    for above in machine.ancestors(pid):
        if named.get(above.pid) == me and above.is_python and not is_launcher(above.command):
            return False
    return True


def _working(top: Process, named: Mapping[int, EnvironmentRank], machine: ProcessTable) -> Process:
    """A script that only starts the training script: the one that loaded torch is the rank."""
    if has_mapped(top.pid, "libtorch"):
        return top
    below = [p for p in machine.descendants(top.pid) if named.get(p.pid) == named[top.pid] and p.is_python]
    return next((p for p in below if has_mapped(p.pid, "libtorch")), top)


def _live(process: Process, me: EnvironmentRank, machine: ProcessTable) -> LiveRank:
    environment = process.environment or {}
    above = [p for p in machine.ancestors(process.pid) if is_launcher(p.command) and p.is_python]
    return LiveRank(
        process,
        me.rank,
        me.world_size,
        me.local_rank,
        _whole(environment.get("TORCHELASTIC_RESTART_COUNT")) or 0,
        above[0].pid if above else None,
        me.job,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None
