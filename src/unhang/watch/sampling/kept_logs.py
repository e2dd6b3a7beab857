"""The output of the job as evidence: the ends of the files behind the standard outputs."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank

LOG_BYTES = 4 << 20
_CUT = ".cut"


def keep_logs(job_outputs: Mapping[str, str], members: Mapping[int, JobRank], folder: Path) -> None:
    """Copies of the regular files behind the standard outputs of the command and of its ranks."""
    kept: set[str] = set()
    for stream, path in job_outputs.items():
        name = "launcher.log" if stream == "stderr" else "launcher.stdout.log"
        if path not in kept:
            copy_tail(Path(path), folder / "logs" / name)
        kept.add(path)
    for _, member in sorted(members.items()):
        me = member.view.identity
        local = me.local_rank if me.local_rank >= 0 else me.rank
        for stream, path in member.outputs.items():
            if path not in kept:
                copy_tail(Path(path), folder / "logs" / f"attempt_{me.attempt}" / str(local) / f"{stream}.log")
            kept.add(path)


def log_sizes(folder: Path) -> dict[str, int]:
    """How long each log in ``folder`` is by now, in bytes, by its path there."""
    found = {}
    for path in sorted((folder / "logs").rglob("*.log")):
        with suppress(OSError):
            found[path.relative_to(folder).as_posix()] = path.stat().st_size
    return found


def note_cut(records: Path, name: str) -> None:
    """The log ``name`` (its path in the run folder) holds the beginning only; its disk may have no room to say so."""
    with suppress(OSError):
        (records / f"{name.replace('/', '!')}{_CUT}").touch()


def cut_logs(records: Path) -> list[str]:
    """Logs noted by :func:`note_cut`: paths in the run folder, sorted."""
    return sorted(path.name.removesuffix(_CUT).replace("!", "/") for path in records.glob(f"*{_CUT}"))


def copy_tail(source: Path, target: Path) -> None:
    """Keep the end of a log, without secrets. Opening a pipe or a terminal could take input away from the job: only
    regular files, looked at first."""
    with suppress(OSError):
        seen = source.stat()
        if not stat.S_ISREG(seen.st_mode) or source.resolve() == target.resolve():
            return
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            file.seek(max(0, seen.st_size - LOG_BYTES))
            data = file.read(LOG_BYTES)
        if seen.st_size > LOG_BYTES:
            data = data.partition(b"\n")[2]
        private_files.write_text(target, data)
        os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))
