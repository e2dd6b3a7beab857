"""Cases of jobs that move, as a watcher saw them: one rank holds the others up, or seems to."""

from __future__ import annotations

import json

from tests.case_writer import COLLECTIVE, PROGRAM, Job

WRITES = """
import json
import torch.distributed as dist


def main():
    for step, batch in enumerate(make_loader()):
        loss = compute(batch)
        dist.all_reduce(loss)
        if dist.get_rank() == 0:
            record(step, loss)


def compute(batch):
    return model(batch)


def record(step, loss):
    with open("history.json", "w") as file:
        file.write(json.dumps(history(step, loss)))


main()
"""
AT, COMPUTE, WRITE = "dist.all_reduce(loss)", "return model(batch)", "file.write(json.dumps(history(step, loss)))"


def make() -> None:
    """Write all of them."""
    slow = {"status": "slow", "exit_code": 1, "certainty": "likely"}
    job = moving(waits={0: 0.05, 1: 0.7}, alone={0: 0.7, 1: 0.05}, slower_from=90)
    says = ["since about step 901", "0.25 s", "0.05 s"]
    where = job.place(WRITE)
    work = {**slow, "cause": "single-rank-work", "ranks": [0]}
    job.write("single-rank-work/hit_writes_grow_since_step_901", {**work, "where": where, "says": says})

    job = moving(waits={0: 0.05, 1: 0.7}, alone={0: 0.7, 1: 0.05})
    job.write("single-rank-work/hit_writes_in_every_step", work)

    job = moving(waits={0: 0.05, 1: 0.7}, alone={0: 0.7, 1: 0.05}, extra="COMPUTE")
    job.write("single-rank-work/miss_computes_longer", {**slow, "cause": "slow-rank", "not_cause": "single-rank-work"})

    job = moving(waits={0: 0.3, 1: 0.3}, alone={0: 0.3, 1: 0.25}, slower_from=90)
    job.write("slow-rank/miss_steps_grow_on_all_ranks", {"not_cause": "slow-rank", "cause": None, "status": "healthy"})


def moving(
    waits: dict[int, float], alone: dict[int, float], *, slower_from: int | None = None, extra: str = "WRITE"
) -> Job:
    """Two ranks of which the watcher took many looks; a step takes five times as long from ``slower_from`` on."""
    job = Job(WRITES, 2, backend="gloo")
    job.history((0, 1), 900, AT)
    job.dump(0, 1)
    for look in ("rank_{}.1.txt", "rank_{}.txt"):
        for rank in (0, 1):
            job.stack(rank, AT, f"all_reduce ({COLLECTIVE}:3042)", name=look.format(rank))
    for rank in (0, 1):
        job.process(rank, moving=True)
    steps = [(10 * i, 0.25 if slower_from is not None and i > slower_from else 0.05) for i in range(1, 121)]
    ranks = [
        {"rank": r, "steps": steps, "waits": waits[r], "alone": alone[r], "places": _places(job, waits[r], extra)}
        for r in (0, 1)
    ]
    job.files["machine/pace.json"] = json.dumps({"schema": "unhang.pace/1", "looks": 240, "ranks": ranks}).encode()
    return job


def _places(job: Job, waits: float, extra: str) -> list[dict[str, object]]:
    """Both compute alike; the one that waits less does something else in the time that is left."""
    own = {"WRITE": WRITE, "COMPUTE": COMPUTE}[extra]
    places = [("communication", waits, AT), ("other", 0.25, COMPUTE), ("other", 0.75 - waits, own)]
    return [{"phase": phase, "share": share, "frames": _frames(job, at)} for phase, share, at in places if share > 0.1]


def _frames(job: Job, at: str) -> list[tuple[str, int, str]]:
    return [(PROGRAM, frame["line"], frame["name"]) for frame in job.frames(at)]
