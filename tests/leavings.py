"""What a small stalled job leaves behind, made on the spot: dumps, stacks, logs, a bundle. All names are made up."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

TRAIN = "/workspace/job/train.py"
LIBRARY = "/opt/python/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
SECOND = 1_000_000_000
START_NS = 1_760_000_000 * SECOND
PROGRAM = """import torch.distributed as dist


def main():
    for step in range(100):
        dist.all_reduce(step)
    if dist.get_rank() == 3:
        return
    dist.barrier()


main()
"""


def entry(position: int, *, operation: str = "all_reduce", state: str = "completed", size: int = 12) -> dict[str, Any]:
    """One collective of the default group as torch 2.9 and later record it."""
    done = state == "completed"
    created = START_NS + position * SECOND
    return {
        "frames": [
            {
                "name": operation,
                "filename": LIBRARY,
                "line": 3245,
            },
            {"name": "main", "filename": TRAIN, "line": 6},
            {"name": "<module>", "filename": TRAIN, "line": 12},
        ],
        "record_id": position,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": position,
        "p2p_seq_id": 0,
        "op_id": position,
        "profiling_name": f"nccl:{operation}",
        "time_created_ns": created,
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "output_sizes": [[size]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": created if done else None,
        "time_discovered_completed_ns": created if done else None,
        "retired": done,
        "timeout_ms": 600000,
        "is_p2p": False,
    }


def dump(*, ranks: int = 4, completed: int = 40, waiting: bool = True) -> dict[str, Any]:
    """A rank that completed ``completed`` collectives and, when ``waiting``, is stuck in the next."""
    entries = [entry(position) for position in range(max(1, completed - 20), completed + 1)]
    if waiting:
        entries.append(entry(completed + 1, state="scheduled"))
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "comm_lib_version": "2.27.5",
        "pg_status": {
            "0": {
                "last_enqueued_collective": completed + waiting,
                "last_started_collective": completed,
                "last_completed_collective": completed,
            }
        },
        "entries": entries,
    }


def dump_bytes(**options: Any) -> bytes:
    """The same as the file PyTorch writes."""
    return pickle.dumps(dump(**options), protocol=2)


def write_dumps(folder: Path, *, ranks: int = 4, laggard: int | None = 3) -> list[Path]:
    """Dumps of a job in which everybody waits for ``laggard``, which stopped one collective earlier."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(ranks):
        behind = rank == laggard
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(dump_bytes(ranks=ranks, completed=40, waiting=not behind))
        paths.append(path)
    return paths


def stack(pid: int, *, line: int = 6, call: str = "all_reduce") -> str:
    """What ``py-spy dump`` prints for a rank in a collective."""
    return (
        f"Process {pid}: /usr/bin/python -u {TRAIN}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        f'Thread {pid} (idle): "MainThread"\n'
        f"    {call} (torch/distributed/distributed_c10d.py:3245)\n"
        f"    main ({TRAIN}:{line})\n    <module> ({TRAIN}:12)\n"
    )


def watchdog_log(rank: int, *, position: int = 41, steps: int = 5) -> str:
    """The log of a rank whose watchdog gave up."""
    lines = [f"step {step} loss {2.5 - step / 10:.3f}" for step in range(steps)]
    lines.append(
        f"[rank{rank}]:[E1009 08:53:20.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective"
        f" operation timeout: WorkNCCL(SeqNum={position}, OpType=ALLREDUCE, NumelIn=12, NumelOut=12,"
        " Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
    )
    return "\n".join(lines) + "\n"


def write_bundle(folder: Path, *, ranks: int = 4, laggard: int = 3) -> Path:
    """A bundle as a recorder of ours writes it; stacks are named by pid so that only the manifest tells their rank."""
    write_dumps(folder / "dumps", ranks=ranks, laggard=laggard)
    for name in ("stacks", "logs", "source"):
        (folder / name).mkdir(parents=True)
    for rank in range(ranks):
        (folder / "stacks" / f"process-{1000 + rank}.txt").write_text(stack(1000 + rank))
        (folder / "logs" / f"rank{rank}.log").write_text(watchdog_log(rank))
    (folder / "source" / "train.py").write_text(PROGRAM)
    manifest = {
        "schema": "unhang.bundle/1",
        "world_size": ranks,
        "backend": "nccl",
        "torch_version": "2.13.0",
        "stalled_since_s": 1_760_000_041.0,
        "taken_s": 1_760_000_051.0,
        "limit_s": 600.0,
        "source_root": "source",
        "source_prefix": str(Path(TRAIN).parent),
        "processes": [
            {"rank": rank, "local_rank": rank, "pid": 1000 + rank, "host": "gpu-a1", "exit_code": None, "state": "S"}
            for rank in range(ranks)
        ],
        "files": sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()),
    }
    (folder / "bundle.json").write_text(json.dumps(manifest, indent=1))
    return folder
