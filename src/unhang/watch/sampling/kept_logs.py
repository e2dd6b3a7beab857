"""The output of the job as evidence: the ends of the files behind the standard outputs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank

LOG_BYTES = 4 << 20
_CUT = ".cut"


LAUNCHER_LOGS = {"stdout": "launcher.stdout.log", "stderr": "launcher.log"}


def keep_logs(files: Iterable[tuple[Path, str]], folder: Path) -> None:
    """Copies of the ends of regular files, each once however many write to it. ``files``: each with its name below
    ``folder/logs``, of which the first counts."""
    kept: set[tuple[int, int] | str] = set()
    for path, name in files:
        with suppress(OSError):
            seen = path.stat()
            file = (seen.st_dev, seen.st_ino)
            if stat.S_ISREG(seen.st_mode) and not kept & {file, name}:
                kept |= {file, name}
                copy_tail(path, folder / "logs" / name)


def output_logs(job_outputs: Mapping[str, str], members: Mapping[int, JobRank]) -> Iterator[tuple[Path, str]]:
    """The files behind the standard outputs of the command and of its ranks, for :func:`keep_logs`."""
    yield from ((Path(path), LAUNCHER_LOGS[stream]) for stream, path in job_outputs.items())
    for _, member in sorted(members.items()):
        me = member.view.identity
        local = me.local_rank if me.local_rank >= 0 else me.rank
        yield from ((Path(path), rank_log(me.attempt, local, stream)) for stream, path in member.outputs.items())


def rank_log(attempt: int, local_rank: int, stream: str) -> str:
    """Its name in a bundle's ``logs``: torchrun files by attempt and local rank."""
    return f"attempt_{attempt}/{local_rank}/{stream}.log"


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
