"""Measure how the time of ``unhang diagnose`` grows with the number of ranks, groups, hosts and steps.

    python -m benchmarks many-ranks                       # 2,500 to 60,000 of each
    python -m benchmarks many-ranks --shape watchdogs     # one of them
    python -m benchmarks many-ranks --source OTHER/src    # another version of unhang

Each figure is the processor time of one command in a fresh process, start-up included. Where bytes double, time may
double; a table whose last columns grow faster than its bytes shows a loop over all pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

COUNTS = (2_500, 5_000, 10_000, 20_000, 60_000)
_TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, "
_RAN = "NumelOut=1, Timeout(ms)=600000) ran for 600050 milliseconds before timing out."
_FAILED = (
    "Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq}, "
    "last completed NCCL work: 6."
)
_ROOT = """[{at}]:
  time      : 2026-05-21_10:00:00
  host      : node{at}
  rank      : {at} (local_rank: {local})
  exitcode  : 1 (pid: {pid})
  error_file: <N/A>
"""


def watchdogs(count: int) -> str:
    """Every rank's watchdog gives up."""
    return "".join(_gives_up(rank, 7, "0") for rank in range(count))


def sequence_numbers(count: int) -> str:
    """Watchdogs of few ranks, each time at another position."""
    return "".join(_gives_up(at % 64, at, "0") for at in range(count))


def process_groups(count: int) -> str:
    """Watchdogs of many ranks, each in a group of its own."""
    return "".join(_gives_up(rank, 7, str(rank)) for rank in range(count))


def root_causes(count: int) -> str:
    """Torchrun's last words on so many ranks."""
    ranks = (_ROOT.format(at=at, local=at % 8, pid=at + 1000) for at in range(count))
    return "Root Cause (first observed failure):\n" + "".join(ranks)


def tracebacks(count: int) -> str:
    """Every rank raises."""
    lines = ("Traceback (most recent call last):", '  File "train.py", line {at}, in main', "RuntimeError: bad {at}")
    return "".join(f"[rank{at}]: {line.format(at=at)}\n" for at in range(count) for line in lines)


def steps(count: int) -> str:
    """Steps of every rank on a host of its own, and what half of them say last."""
    told = (f"node{at}: [rank{at}]: 2026-05-21 10:{at // 60 % 60:02d}:{at % 60:02d} step {at}\n" for at in range(count))
    last = (f"node{at}: [rank{at}]: 2026-05-21 11:00:00 saving checkpoint\n" for at in range(0, count, 2))
    return "".join((*told, *last))


def nccl_inits(count: int) -> str:
    """NCCL names every process, card and world."""
    return "".join(
        f"host{at // 8}:{at + 1000}:{at + 2000} [{at % 8}] NCCL INFO comm 0x{at:x} rank {at} nranks {count} "
        f"cudaDev {at % 8} nvmlDev {at % 8} busId {at:x} commId 0x5 - Init COMPLETE\n"
        for at in range(count)
    )


def stacks(count: int) -> str:
    """A stack of every process, one after the other."""
    return "".join(
        f"Process {at + 1000}: python train.py\nPython v3.11 (/usr/bin/python3)\n\n"
        f'Thread {at + 1000} (active): "MainThread"\n    all_reduce (torch/distributed/distributed_c10d.py:2501)\n'
        f"    main (train.py:{at % 300 + 1})\n\n"
        for at in range(count)
    )


LOGS: dict[str, Callable[[int], str]] = {
    maker.__name__.replace("_", "-"): maker
    for maker in (watchdogs, sequence_numbers, process_groups, root_causes, tracebacks, steps, nccl_inits, stacks)
}
DUMPS = {"groups-in-pickles": pickle.dumps, "groups-in-json": lambda held: json.dumps(held).encode()}
SHAPES = (*LOGS, *DUMPS)


def write_shape(folder: Path, shape: str, count: int) -> Path:
    """So many of ``shape`` in a file, or in the dumps of four ranks, below ``folder``."""
    place = folder / f"{shape}_{count}"
    place.mkdir()
    if shape in LOGS:
        (place / "job.log").write_text(LOGS[shape](count), encoding="utf-8")
        return place / "job.log"
    for rank in range(4):
        (place / f"nccl_trace_rank_{rank}").write_bytes(DUMPS[shape](_recording(count // 4)))
    return place


def _gives_up(rank: int, seq: int, group: str) -> str:
    head = f"[rank{rank}]:[E521 10:00:{rank % 60:02d}.000000 ProcessGroupNCCL.cpp:607] "
    of_group = f"[PG ID {group} PG GUID {group}(g{group}) Rank {rank}] "
    return f"{head}[Rank {rank}] {_TIMEOUT.format(seq=seq)}{_RAN}\n{head}{of_group}{_FAILED.format(seq=seq)}\n"


def _recording(groups: int) -> dict[str, object]:
    """A dump in which each of so many groups of four ranks has one call that everybody joined."""
    names = [str(number) for number in range(groups)]
    return {
        "version": "2.10",
        "pg_config": {name: {"name": name, "desc": f"g{name}", "ranks": "[0, 1, 2, 3]"} for name in names},
        "pg_status": {
            name: {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 2}
            for name in names
        },
        "entries": [
            {
                "frames": [{"name": "main", "filename": "/work/train.py", "line": 10}],
                "record_id": number,
                "pg_id": number,
                "process_group": (name, f"g{name}"),
                "collective_seq_id": 3,
                "p2p_seq_id": 0,
                "op_id": number,
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 10**18 + number,
                "input_sizes": [[4]],
                "input_dtypes": ["Float"],
                "output_sizes": [[4]],
                "output_dtypes": ["Float"],
                "state": "scheduled",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": False,
                "timeout_ms": 600000,
                "is_p2p": False,
            }
            for number, name in enumerate(names)
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every shape in every count, run the command, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks many-ranks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--count", action="append", type=int)
    parser.add_argument("--format", default="json", choices=("text", "json", "markdown", "html"))
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time after which one is given up")
    parser.add_argument("--source", type=Path, help="the src folder of another version")
    options = parser.parse_args(arguments)
    counts = options.count or COUNTS
    print("| seconds of processor time | " + " | ".join(f"{count:,}" for count in counts) + " | MB |")
    print("|---|" + "---:|" * (len(counts) + 1))
    for shape in options.shape or SHAPES:
        with tempfile.TemporaryDirectory(prefix="unhang-bench-") as scratch:
            places = [write_shape(Path(scratch), shape, count) for count in counts]
            row = [_measured(place, options.format, options.source, options.limit) for place in places]
            size = sum(file.stat().st_size for file in [places[-1], *places[-1].glob("*")] if file.is_file())
        print(f"| {shape} | {' | '.join(row)} | {size / 1e6:.1f} |", flush=True)
    return 0


def _measured(place: Path, form: str, source: Path | None, limit_s: int) -> str:
    code = "from unhang.cli.main import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    limited = ["sh", "-c", f'ulimit -t {limit_s}; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*limited, sys.executable, "-c", code, "diagnose", "--format", form, str(place)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"> {limit_s}"
    return f"{used.ru_utime + used.ru_stime:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
