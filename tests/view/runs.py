"""Runs to look at, as a watcher keeps them: of any size, live or over."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from unhang.report.text_serialization import text_to_json
from unhang.sentences import say
from unhang.watch.run_folder import RunFolder
from unhang.wire.documents.live_state import LIVE_FILE_NAME, SCHEMA, STATES
from unhang.wire.documents.run_plan import RunPlan

LEFT = say("{ranks:who} ran out of batches and left the loop; the others are still in it", ranks=(0,))
STALLED, CRASHED, INTERRUPTED, FINISHED = (
    Path(__file__).parent / "ended_runs" / name for name in ("stalled", "crashed", "interrupted", "finished")
)
"""What real runs left: the first and the third were ended with Ctrl-C."""
WAITING, BUSY = STATES.index("waiting"), STATES.index("busy")


def document(ranks: int = 2, *, stalled: bool = True, a_node: int = 8) -> dict[str, Any]:
    """A stalled job: rank 0 is busy evaluating, the others wait."""
    column = list(range(ranks))
    group = {"name": "default_pg", "backend": "gloo", "size": ranks, "rank": column}
    return {
        "schema": SCHEMA,
        "at_s": time.time(),
        "ended": False,
        "run": {
            "command": ["torchrun", "train.py"],
            "folder": "/r",
            "started_s": time.time() - 4_000,
            "world_size": ranks,
            "nodes": [f"h{at + 1}" for at in range((ranks + a_node - 1) // a_node)],
        },
        "ranks": {
            "rank": column,
            "node": [rank // a_node for rank in column],
            "state": [BUSY if rank == 0 else WAITING for rank in column],
            "phase": [4 if rank == 0 else 3 for rank in column],
            "label": [0 if rank == 0 else -1 for rank in column],
            "place": [0 if rank == 0 else 1 for rank in column],
            "step": [90 + (rank > 0) for rank in column],
            "step_s": [0.25] * ranks,
            "still_s": [3.0] * ranks,
            "waits_s": [-1.0 if rank == 0 else 7.5 for rank in column],
            "beat_s": [0.1] * ranks,
        },
        "places": ["/home/ml/train.py:51", "/home/ml/train.py:47"],
        "labels": ["evaluation"],
        "groups": [{**group, "enqueued": [90 + (rank > 0) for rank in column], "completed": [90] * ranks}],
        "standing": {"waiters": column[1:], "laggards": [0], "waited_s": 7.5, "urgent": True, "killed_in_s": 55.0},
        "verdict": {
            "level": "stall" if stalled else "slow",
            "status": "hang" if stalled else "slow",
            "cause": "uneven-data",
            "certainty": "certain",
            "ranks": [0],
            "where": 'a "quoted"\\path.py:51',
            "sentence": str(LEFT),
            "parts": text_to_json(LEFT),
        },
        "totals": {
            "steps": 91,
            "step_s": 0.25,
            "slowest": 0,
            "by_phase": {"evaluation": [12.5, 2]},
            "findings": ["uneven-data"],
        },
    }


def run_folder(place: Path, state: dict[str, Any] | None) -> RunFolder:
    """A run whose watcher keeps ``state``; None: it has kept none yet."""
    records = place / "records"
    records.mkdir(parents=True)
    (records / "control").touch()
    folder = RunFolder(RunFolder.create(place / "run").path, records)
    folder.write_plan(RunPlan(command=["torchrun"], records=str(records)))
    if state is not None:
        (records / LIVE_FILE_NAME).write_text(json.dumps(state))
    return folder
