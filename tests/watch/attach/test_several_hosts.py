"""Every node of a job writes its own folder into a shared one; one `unhang diagnose` reads them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.command import unhang

PROGRAM = """import torch.distributed as dist

def main():
    if dist.get_rank() != 3:
        dist.all_reduce(x)
    dist.barrier()

main()
"""
LIBRARY = "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def stack(pid: int, operation: str, line: int) -> list[dict[str, Any]]:
    frames = [(operation, LIBRARY, 4000), ("main", "/job/train.py", line), ("<module>", "/job/train.py", 8)]
    named = [{"name": name, "filename": file, "module": None, "line": line} for name, file, line in frames]
    thread = {"pid": pid, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": pid, "active": False}
    return [{**thread, "owns_gil": False, "frames": named, "process_info": None}]


def write_host(folder: Path, host: str, ranks: range) -> None:
    """A bundle of one node. Both nodes' ranks have the same process numbers and local ranks."""
    (folder / "stacks").mkdir(parents=True)
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text(PROGRAM)
    processes = []
    for local, rank in enumerate(ranks):
        pid = 100 + local
        late = rank == 3
        text = json.dumps(stack(pid, "barrier" if late else "all_reduce", 6 if late else 5))
        for name in (f"rank_{rank}.1.json", f"rank_{rank}.json"):
            (folder / "stacks" / name).write_text(text)
        processes.append(
            {"rank": rank, "local_rank": local, "pid": pid, "host": host, "state": "S", "moving": False}
        )  # fmt: skip
    manifest = {"schema": "unhang.bundle/1", "world_size": 4, "processes": processes, "source_root": "source"}
    (folder / "bundle.json").write_text(json.dumps({**manifest, "source_prefix": "/job", "taken_s": 1.7e9}))


def test_folders_of_two_hosts_are_one_job(tmp_path: Path) -> None:
    write_host(tmp_path / "node-a", "node-a", range(2))
    write_host(tmp_path / "node-b", "node-b", range(2, 4))
    done = unhang("diagnose", tmp_path, "--format", "json")
    verdict = json.loads(done.stdout)
    first = verdict["findings"][0]
    assert verdict["ranks_seen"] == [0, 1, 2, 3]
    assert (first["cause"], first["ranks"], first["nodes"]) == ("rank-conditional-collective", [3], ["node-b"])
    assert first["where"]["line"] == 6


def test_one_host_of_two_knows_what_it_misses(tmp_path: Path) -> None:
    write_host(tmp_path / "node-a", "node-a", range(2))
    verdict = json.loads(unhang("diagnose", tmp_path, "--format", "json").stdout)
    assert verdict["ranks_missing"] == [2, 3]
    assert all(finding["certainty"] != "certain" for finding in verdict["findings"])
