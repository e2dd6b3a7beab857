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
SLOWER = {"cause": "unknown", "status": "unknown", "exit_code": 3, "says": ["step times grew from 0.05 s to 0.25 s"]}
"""What is said of a job whose steps take longer on all ranks, and nothing tells why."""
AT, COMPUTE, WRITE = "dist.all_reduce(loss)", "return model(batch)", "file.write(json.dumps(history(step, loss)))"


def make() -> None:
    """Write all of them."""
    slow = {"status": "slow", "exit_code": 1, "certainty": "likely"}
    job = moving(waits={0: 0.05, 1: 0.7}, slower_from=90)
    says = ["since about step 901", "0.25 s", "0.05 s"]
    where = job.place(WRITE)
    work = {**slow, "cause": "single-rank-work", "ranks": [0]}
    job.write("single-rank-work/hit_writes_grow_since_step_901", {**work, "where": where, "says": says})

    job = moving(waits={0: 0.05, 1: 0.7})
    job.write("single-rank-work/hit_writes_in_every_step", work)

    job = moving(waits={0: 0.05, 1: 0.7}, extra="COMPUTE")
    job.write("single-rank-work/miss_computes_longer", {**slow, "cause": "slow-rank", "not_cause": "single-rank-work"})

    job = moving(waits={0: 0.3, 1: 0.3}, slower_from=90)
    job.write("slow-rank/miss_steps_grow_on_all_ranks", SLOWER | {"not_cause": "slow-rank"})

    _survived()
    _memory()
    _slow_links()


def _slow_links() -> None:
    """Three nodes in a ring: what is sent piles up on the way to node b and from it, or elsewhere, or nowhere."""
    slow = {"status": "slow", "exit_code": 1, "cause": "network-fault"}
    likely = {**slow, "certainty": "likely", "says": ["the link of node-b", "none is late"]}
    both = {0: ["10.0.0.1>10.0.0.2"], 1: ["10.0.0.2>10.0.0.3"]}
    slower = SLOWER | {"not_cause": "network-fault"}
    ring = {**both, 2: ["10.0.0.3>10.0.0.1"]}
    for name, piled, waits, expected in (
        ("hit_one_link_is_slow", both, 0.8, likely),
        ("unsure_one_way_is_slow", {0: both[0]}, 0.8, {**slow, "certainty": "possible", "says": ["node-a, node-b"]}),
        ("miss_all_links_are_busy", ring, 0.8, slower),
        ("miss_one_link_is_busy_and_ranks_compute", both, 0.2, slower),
    ):
        job = Job(WRITES, 3, backend="gloo")
        job.history((0, 1, 2), 900, AT)
        job.dump(0, 1, 2)
        for rank in range(3):
            job.stack(rank, AT, f"all_reduce ({COLLECTIVE}:3042)")
            where = {"host": f"node-{'abc'[rank]}", "addresses": [f"10.0.0.{rank + 1}"]}
            job.process(rank, moving=True, piled_up=piled.get(rank, []), **where)
        steps = [(10 * i, 0.25 if i > 90 else 0.05) for i in range(1, 121)]
        ranks = [{"rank": r, "steps": steps, "waits": waits} for r in range(3)]
        job.files["machine/pace.json"] = json.dumps({"schema": "unhang.pace/1", "looks": 240, "ranks": ranks}).encode()
        job.write(f"network-fault/{name}", expected)


def _survived() -> None:
    """Calls that differed at one position and stopped nothing, as the watcher compared them."""
    wrong = {"status": "slow", "exit_code": 1, "cause": "collective-mismatch", "certainty": "certain"}
    for dtype, case in (
        ("int", "hit_other_dtype_and_the_job_goes_on"),
        ("float", "miss_the_watcher_compared_equal_calls"),
    ):
        job = moving(waits={0: 0.3, 1: 0.3})
        kinds = ("float", dtype)
        group = {
            "group": "0",
            "position": 41,
            "times": 12,
            "calls": [_call(job, r, kind) for r, kind in enumerate(kinds)],
        }
        job.files["machine/compared.json"] = json.dumps({"schema": "unhang.compared/1", "groups": [group]}).encode()
        where = {"where": job.place(AT), "ranks": [0, 1], "says": ["float, rank 1 with int", "12 recorded positions"]}
        healthy = {"not_cause": "collective-mismatch", "cause": None, "status": "healthy"}
        job.write(f"collective-mismatch/{case}", {**wrong, **where} if dtype == "int" else healthy)


def _call(job: Job, rank: int, dtype: str) -> dict[str, object]:
    sizes = {"input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": [dtype], "output_dtypes": [dtype]}
    return {"rank": rank, "operation": "all_reduce", "frames": _frames(job, AT), **sizes}


def _memory() -> None:
    """A rank is gone, and a counter grew in that moment, or long before."""
    told = "2025-10-09T08:54:10Z oom_kill of memory group /job_1 went from 0 to 1 (limit 4096 MiB)"
    for more, case in (
        ("; process 4001 was killed then", "hit_counter_of_its_memory_group_grew"),
        ("", "unsure_counter_grew_for_another_process"),
    ):
        job = Job(WRITES, 2, backend="gloo")
        job.history((0, 1), 900, AT)
        job.call((0,), 901, "all_reduce", AT, open=True)
        job.dump(0)
        job.waits((0,), "all_reduce", AT)
        job.process(1, exit_code=-9, killed_by_us=False, state="", moving=None)
        job.files["machine/memory.log"] = f"{told}{more}\n".encode()
        certain = {"cause": "host-memory", "ranks": [1], "certainty": "certain", "also": ["rank-crashed"]}
        unsure = {"cause": "rank-crashed", "also": ["host-memory"], "certainty_at_most": "certain", "ranks": [1]}
        job.write(f"host-memory/{case}", certain if more else unsure)


def moving(waits: dict[int, float], *, slower_from: int | None = None, extra: str = "WRITE") -> Job:
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
    ranks = [{"rank": r, "steps": steps, "waits": waits[r], "places": _places(job, waits[r], extra)} for r in (0, 1)]
    job.files["machine/pace.json"] = json.dumps({"schema": "unhang.pace/1", "looks": 240, "ranks": ranks}).encode()
    return job


def _places(job: Job, waits: float, extra: str) -> list[dict[str, object]]:
    """Both compute alike; the one that waits less does something else in the time that is left."""
    own = {"WRITE": WRITE, "COMPUTE": COMPUTE}[extra]
    places = [("communication", waits, AT), ("other", 0.25, COMPUTE), ("other", 0.75 - waits, own)]
    return [{"phase": phase, "share": share, "frames": _frames(job, at)} for phase, share, at in places if share > 0.1]


def _frames(job: Job, at: str) -> list[tuple[str, int, str]]:
    return [(PROGRAM, frame["line"], frame["name"]) for frame in job.frames(at)]
