"""Run the user's command up to its first optimizer step, read what every rank started with, and leave nothing behind.

The start-up hook (``inprocess.dry_run``) ends each rank; this side waits, and ends whatever is left at the limit.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from unhang.check.sameness.sameness import DryRun, RankStart
from unhang.errors import UsageError
from unhang.inprocess.dry_run import FOLDER, PEERS, STEPS
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.job_environment import find_task
from unhang.sentences import Text, say
from unhang.watch.job import job_processes
from unhang.watch.launch.job_environment import RECORDS_VARIABLE, RUN_FOLDER_VARIABLE, with_startup_hook

LIMIT_S = 300.0
TICK_S = 0.1
LATE_RANK_LIMIT_S = 60.0
"""So long after the first rank came to its step the last one may take."""
KILL_LIMIT_S = 10.0
_START_RANKS = ("torchrun", "accelerate", "deepspeed", "llamafactory")
LAST_LINES, LAST_BYTES = 12, 16384
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def dry_run(command: Sequence[str], limit_s: float = LIMIT_S, environment: Mapping[str, str] | None = None) -> DryRun:
    """How the ranks of ``command`` on this machine start.

    Args:
        command: as the user would type it; its output is not shown.
        limit_s: after so long everything is ended.
        environment: of the command; default: ours.

    Raises:
        UsageError: the command cannot be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="unhang-dry-run-"))
    with cleaned_up(folder), (folder / "output").open("wb") as output:
        job = start_job(command, output, dry_run_environment(command, dict(environment or os.environ), folder))
        because = _wait(job, folder, limit_s)
        with suppress(subprocess.TimeoutExpired):
            job.wait(KILL_LIMIT_S if because is None else 0)
        ranks, code = read_starts(folder), job.poll()
        kill_job(job, folder)
        return DryRun(ranks, _end_kind(ranks, because), code, because, last_output_lines(folder / "output"))


def dry_run_environment(command: Sequence[str], base: dict[str, str], folder: Path, steps: int = 0) -> dict[str, str]:
    """``base`` with our start-up hook, which ends the program after ``steps`` timed steps (0: before the first)."""
    for name in (RECORDS_VARIABLE, RUN_FOLDER_VARIABLE):
        base.pop(name, None)
    if find_task(base) is not None and parse_command(command).launcher not in _START_RANKS:
        base[PEERS] = "1"  # the launcher started us, one a rank
    return {**with_startup_hook(base), FOLDER: str(folder), STEPS: str(steps)}


def start_job(command: Sequence[str], output: Any, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own, so that a Ctrl-C is ours to deal with."""
    try:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror or error}") from error


def read_starts(folder: Path) -> tuple[RankStart, ...]:
    """What ranks have left so far, by rank; a file that is none of ours is left out."""
    found = {}
    for path in sorted(folder.glob("rank_*.json")):
        with suppress(OSError, ValueError, msgspec.ValidationError, TypeError):
            start = msgspec.convert(json.loads(path.read_bytes()), RankStart)
            found[start.rank] = start
    return tuple(found[rank] for rank in sorted(found))


def _wait(job: subprocess.Popen[bytes], folder: Path, limit_s: float) -> Text | None:
    """Wait until all ranks are at their step or the command ended; why not, where the time was over."""
    deadline = time.monotonic() + limit_s
    hurried = False
    while time.monotonic() < deadline:
        time.sleep(TICK_S)
        ranks = read_starts(folder)
        if job.poll() is not None:
            return None
        if ranks and all(rank.stepped for rank in ranks) and len(ranks) >= _expected(ranks):
            return None
        if _never_steps(ranks):
            return say("a rank has no batch, so the other ranks wait for it in their first step")
        if not hurried and any(rank.stepped or rank.stage == "ended" for rank in ranks):
            hurried, deadline = True, min(deadline, time.monotonic() + LATE_RANK_LIMIT_S)
    if hurried:
        return say("only a part of the ranks reached the first step")
    late = _missing_ranks(ranks)
    if late:
        return say(
            "{ranks:who} had not started to read data after {seconds:.0f} s; other ranks had",
            ranks=late,
            seconds=limit_s,
        )
    return say("no optimizer step within {seconds:.0f} s", seconds=limit_s)


def _missing_ranks(ranks: Sequence[RankStart]) -> tuple[int, ...]:
    """Ranks of this machine that said nothing although others did; launchers number a machine's ranks in a row."""
    if not ranks:
        return ()
    count = _expected(ranks)
    first = min(rank.rank for rank in ranks) // count * count
    return tuple(sorted({*range(first, first + count)} - {rank.rank for rank in ranks}))


def _expected(ranks: Sequence[RankStart]) -> int:
    """How many ranks are to come on this machine."""
    return max(rank.peers for rank in ranks) or max(rank.world_size for rank in ranks)


def _never_steps(ranks: Sequence[RankStart]) -> bool:
    """Every rank reads its data, and one of them has none."""
    if len(ranks) < 2 or len(ranks) < _expected(ranks) or any(rank.stepped for rank in ranks):
        return False
    first = [[loader.steps for loader in rank.loaders if loader.read == 0] for rank in ranks]
    return any(steps == [0] for steps in first) and any(steps and steps[0] for steps in first)


def _end_kind(ranks: Sequence[RankStart], because: Text | None) -> str:
    if because is not None:
        return "limit"
    return "steps" if ranks and all(rank.stepped for rank in ranks) else "early"


def last_output_lines(path: Path) -> tuple[str, ...]:
    """The last lines of what the command said."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LAST_BYTES))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
        return tuple(line[:400] for line in lines if line)[-LAST_LINES:]
    return ()


def kill_job(job: subprocess.Popen[bytes], folder: Path) -> None:
    """End every process of ``job``, and reap it."""
    job_processes.kill_marked(f"{FOLDER}={folder}", frozenset())
    with suppress(subprocess.TimeoutExpired):
        job.wait(KILL_LIMIT_S)


@contextmanager
def cleaned_up(folder: Path) -> Iterator[None]:
    """Whatever happens inside, no process of the job and no file of ours is left."""
    with signals_as_exit(), job_processes.adopting_orphans():
        try:
            yield
        finally:
            job_processes.kill_marked(f"{FOLDER}={folder}", frozenset())
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def signals_as_exit() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP end us in order, as Ctrl-C does."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
