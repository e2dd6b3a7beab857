"""Target ``jobs``: small jobs whose papers contradict each other, made from nothing.

Each file is what its reader takes without a word; what is wrong is that they do not fit: ranks that no world holds,
groups of ranks that left nothing, positions that go back, a stack beside a record that says otherwise. Damage to a
recorded case hardly ever gets there: two files would have to change in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import diagnosing
from tests.fuzz.folders import Input
from tests.fuzz.mutators import foreign
from tests.fuzz.reading import reader_seeds
from tests.fuzz.seeds import MANIFEST, Seed
from unhang_lab.dump_writer import make_dump, make_entry, pickle_like_torch

Files = dict[str, bytes]
MAX_RANKS = 6
GROUPS = ("0", "7")
OPERATIONS = ("all_reduce", "broadcast", "barrier", "all_gather", "send 1->0")


def job_input(rng: Random, number: int) -> Files:
    """Up to six ranks, and what different witnesses tell of them."""
    files = {"machine/nodes.json": _nodes(rng)} if rng.random() < 0.5 else {}
    if rng.random() < 0.8:
        files[MANIFEST] = _manifest(rng)
    for rank in _ranks(rng):
        files[f"dumps/rank_{rank}"] = _dump(rng)
    for rank in _ranks(rng):
        files[f"logs/rank_{rank}.log"] = foreign(rng, f"[rank{rank}]: step 1\n[rank{rank}]: step 2\n".encode())
    for rank in _ranks(rng):
        files[f"stacks/rank_{rank}.txt"] = rng.choice(reader_seeds()["stacks"])
    return files


def _ranks(rng: Random) -> list[int]:
    return sorted(rng.sample(range(MAX_RANKS), rng.randrange(MAX_RANKS)))


def _manifest(rng: Random) -> bytes:
    world = rng.choice((None, *range(1, MAX_RANKS)))
    processes: list[dict[str, Any]] = [
        {
            "rank": rank,
            "local_rank": rng.randrange(2),
            "exit_code": rng.choice((None, None, 0, 1, -9, -15)),
            "state": rng.choice("SRTD"),
            "moving": rng.choice((None, True, False)),
        }
        for rank in _ranks(rng)
        if world is None or rank < world
    ]
    told = {"schema": "unhang.bundle/1", "world_size": world, "backend": rng.choice(("gloo", "nccl"))}
    return json.dumps(told | {"live": rng.random() < 0.5, "processes": processes}).encode()


def _dump(rng: Random) -> bytes:
    entries = [
        make_entry(
            record_id=at,
            group=(rng.choice(GROUPS), "default_pg"),
            position=max(0, at + rng.randrange(-1, 2)),
            operation=f"{rng.choice(('nccl', 'gloo'))}:{rng.choice(OPERATIONS)}",
            sizes=((rng.randrange(1, 3),),),
            state=rng.choice(("completed", "completed", "scheduled", "started")),
            is_p2p=rng.random() < 0.1,
        )
        for at in range(rng.randrange(9))
    ]
    groups = {name: ("default_pg" if name == "0" else "", _ranks(rng)) for name in GROUPS}
    status = {"0": (rng.randrange(9), rng.randrange(9), rng.randrange(9))} if rng.random() < 0.5 else None
    return pickle_like_torch(make_dump("2.13", entries, groups=groups, status=status))


def _nodes(rng: Random) -> bytes:
    nodes = []
    for name in ("h1", "h2"):
        ranks = _ranks(rng)
        columns = {key: [rng.randrange(9) for _ in ranks] for key in ("enqueued", "completed")}
        positions = [{"group": rng.choice(GROUPS), "rank": ranks, **columns}]
        nodes.append({"name": name, "ranks": ranks, "silent_s": rng.choice((None, 20.0)), "positions": positions})
    return json.dumps({"schema": "unhang.nodes/1", "nodes": nodes}).encode()


def jobs(given: Files, place: Path, number: int) -> Iterator[str]:
    """What is wrong with the verdict on it, and with every output."""
    yield from diagnosing.check(Input(Seed("jobs", given), given, foreign=True), place, number)
