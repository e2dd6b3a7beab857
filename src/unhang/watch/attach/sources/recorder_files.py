"""Flight-recorder dumps: ask through the job's named pipe, and keep what lies where the recorder writes."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.process_state.proc_processes import path_in_container, started_s
from unhang.watch.process_state.rank_processes import LiveRank

DUMP_BYTES = 512 << 20
SETTLED_S = 0.25
POLL_S = 0.05


def dump_paths(rank: LiveRank) -> tuple[Path, ...]:
    """Where the recorder of this rank may write, as the process names it; what the user set comes first."""
    environment = rank.environment
    home = environment.get("HOME", "")
    cache = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    prefixes = [environment.get("TORCH_FR_DUMP_TEMP_FILE"), environment.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")]
    if cache:
        prefixes += [f"{cache}/torch/comm_lib_trace_rank_", f"{cache}/torch/nccl_trace_rank_"]
    prefixes.append("/tmp/nccl_trace_rank_")  # noqa: S108 - torch 2.2 to 2.6 write there
    folder = Path(f"/proc/{rank.pid}/cwd")
    named = []
    for prefix in dict.fromkeys(filter(None, prefixes)):
        path = Path(f"{prefix}{rank.rank}")
        named.append(path_in_container(rank.pid, path) if path.is_absolute() else folder / path)
    return tuple(named)


def trigger_dump(rank: LiveRank) -> bool:
    """Write one byte into the rank's named pipe, if there is one and the rank reads it. Never waits."""
    stem = rank.environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
    if not stem or rank.process.state in "Tt":
        return False
    path = Path(f"{stem}{rank.rank}.pipe")
    path = path_in_container(rank.pid, path) if path.is_absolute() else Path(f"/proc/{rank.pid}/cwd") / path
    try:
        # without a reader this fails at once, and a pipe that is full takes nothing
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode) and os.write(descriptor, b"1") == 1
    except OSError:
        return False
    finally:
        os.close(descriptor)


def wait_for_dumps(asked: Sequence[LiveRank], since_s: float, *, limit_s: float) -> set[int]:
    """Ranks of which a dump newer than ``since_s`` stands and has stopped growing."""
    deadline = time.monotonic() + limit_s
    sizes: dict[int, int] = {}
    done: set[int] = set()
    while time.monotonic() < deadline and len(done) < len(asked):
        for rank in asked:
            known = newest_dump(rank, since_s=since_s)
            size = _size(known) if known is not None else 0
            if size and sizes.get(rank.rank) == size:
                done.add(rank.rank)
            sizes[rank.rank] = size
        time.sleep(SETTLED_S if any(sizes.values()) else POLL_S)
    return done


def newest_dump(rank: LiveRank, *, since_s: float | None = None) -> Path | None:
    """The newest dump this process can have written, or None."""
    since_s = started_s(rank.process) if since_s is None else since_s
    found: list[tuple[float, Path]] = []
    for path in dump_paths(rank):
        with suppress(OSError):
            seen = path.stat()
            if stat.S_ISREG(seen.st_mode) and seen.st_size and seen.st_mtime >= (since_s or 0.0) - 1.0:
                found.append((seen.st_mtime, path))
    return max(found)[1] if found else None


def copy_dump(path: Path, target: Path) -> bool:
    """Copy a dump into the bundle; its time is kept."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            seen = os.fstat(descriptor)
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > DUMP_BYTES:
                return False
            private_files.write(target, file.read(DUMP_BYTES))
        os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    except OSError:
        return False
    return True


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
