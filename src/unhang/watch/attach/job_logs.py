"""The ends of the job's log files: regular files behind standard output and error, and the launcher's log folder."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from unhang.program.launch.command_words import launcher_options
from unhang.watch.process_state.proc_processes import PROC, ProcessTable, path_in_container
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.sampling.kept_logs import copy_tail

STREAMS = ((1, "stdout"), (2, "stderr"))


def keep_logs(machine: ProcessTable, ranks: Sequence[LiveRank], launcher: int | None, folder: Path) -> int:
    """Copy the ends of all logs into ``folder/logs``; returns how many."""
    kept: set[tuple[int, int]] = set()
    if launcher is not None:
        _keep(PROC / str(launcher) / "fd" / "1", folder / "logs" / "launcher.stdout.log", kept)
        _keep(PROC / str(launcher) / "fd" / "2", folder / "logs" / "launcher.log", kept)
    for rank in ranks:
        for number, stream in STREAMS:
            _keep(PROC / str(rank.pid) / "fd" / str(number), folder / "logs" / log_name(rank, stream), kept)
    if launcher is not None:
        for name, path in _launcher_files(machine, launcher, {rank.attempt for rank in ranks}):
            if not (folder / "logs" / name).exists():
                _keep(path, folder / "logs" / name, kept)
    return len(kept)


def log_name(rank: LiveRank, stream: str) -> str:
    """Name in a bundle's ``logs``: torchrun files by attempt and local rank."""
    local = rank.local_rank if rank.local_rank is not None else rank.rank
    return f"attempt_{rank.attempt}/{local}/{stream}.log"


def _launcher_files(machine: ProcessTable, launcher: int, attempts: set[int]) -> Iterator[tuple[str, Path]]:
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
                yield "/".join(path.parts[-3:]), path


def _keep(source: Path, target: Path, kept: set[tuple[int, int]]) -> None:
    """Each file once, however many write to it."""
    with suppress(OSError):
        seen = source.stat()
        if stat.S_ISREG(seen.st_mode) and (seen.st_dev, seen.st_ino) not in kept and seen.st_size:
            kept.add((seen.st_dev, seen.st_ino))
            copy_tail(source, target)
