"""What ranks left when they ended: exceptions nobody caught, and where those stood whom the launcher ended then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.process_state.py_spy import recorded_stack
from unhang.wire.uncaught_exception import exceptions_file, read_exceptions

_LAST_BYTES = 1 << 16


def keep_exceptions(members: Mapping[int, JobRank], job_outputs: Mapping[str, str], folder: Path) -> None:
    """Exceptions nobody caught, as Python prints them, for ranks whose output is not at hand, is not theirs alone (then
    nothing tells whose a traceback is), or holds none: a launcher may end a rank before it prints its own."""
    writers = Counter([*job_outputs.values(), *(path for one in members.values() for path in {*one.outputs.values()})])
    for rank, member in members.items():
        with suppress(OSError):
            if writers[name := member.outputs.get("stderr", "")] == 1 and _holds_traceback(Path(name)):
                continue
            text = "".join(one.as_printed() for one in read_exceptions(folder, rank))
            if text:
                private_files.write_text(folder / "crash" / f"rank_{rank}.exception.log", text)


def _holds_traceback(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST_BYTES))
        return b"Traceback (most recent call last)" in file.read()
    return False


def infer_exit_codes(members: Mapping[int, JobRank], folder: Path) -> None:
    """Of a rank whose launcher was quicker to ask how it ended than we were (mpirun), what its main thread raised and
    nobody caught tells the exit code."""
    for rank, member in members.items():
        if member.ended_ns is None or member.exit_code is not None:
            continue
        with suppress(OSError):
            if any(one.ends_the_process for one in read_exceptions(folder, rank)):
                member.exit_code = 1


def last_exception_ns(folder: Path, ranks: Iterable[int]) -> int:
    """When one of ``ranks`` raised what nobody caught, last; nanoseconds since the epoch, 0 where none did."""
    latest = 0
    for rank in ranks:
        with suppress(OSError):
            latest = max(latest, exceptions_file(folder, rank).stat().st_mtime_ns)
    return latest


def keep_exit_stacks(members: Mapping[int, JobRank], folder: Path) -> None:
    """Of ranks that ended without a word (the launcher's SIGTERM): where they stood after the first one had ended.

    Their records say so when their wake FIFO was written to in time, or when they were about to raise.
    """
    ends = [_fell_ns(rank, member, folder) for rank, member in members.items() if member.ended_ns is not None]
    for rank, member in members.items():
        view = member.view
        if member.ended_ns is None or not view.stack or view.sampled_ns < min(ends) or _reported_s(rank, folder):
            continue
        if exceptions_file(folder, rank).exists() or (folder / "stacks" / f"rank_{rank}.txt").exists():
            continue
        private_files.write_text(folder / "stacks" / f"rank_{rank}.txt", recorded_stack(view, member.pid))


def _fell_ns(rank: int, member: JobRank, folder: Path) -> int:
    """When it fell: as its crash report was written, some 0.1 s before the watcher sees the process gone."""
    ended_ns, ago_s = member.ended_ns or 0, (member.ended_s or 0.0) - _reported_s(rank, folder)
    written_ns = ended_ns - int(max(0.0, ago_s) * 1e9)
    return written_ns if written_ns > member.view.identity.armed_ns else ended_ns


def _reported_s(rank: int, folder: Path) -> float:
    """When its crash report was written, zero where there is none."""
    with suppress(OSError):
        report = (folder / "crash" / f"rank_{rank}.faulthandler").stat()
        return report.st_mtime if report.st_size else 0.0
    return 0.0


def drop_earlier_dumps(members: Mapping[int, JobRank], folder: Path) -> None:
    """Dumps that were written before their rank's process armed tell of an earlier attempt."""
    for rank, member in members.items():
        view = member.view
        armed_s = (view.beat_wall_ns - (view.beat_ns - view.identity.armed_ns)) / 1e9
        path = folder / "dumps" / f"rank_{rank}"
        with suppress(OSError):
            if view.beat_ns > 0 and path.stat().st_mtime < armed_s - 1.0:
                path.unlink()
