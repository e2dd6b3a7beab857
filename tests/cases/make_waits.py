"""Cases in which the order of groups, one rank's work, its loader, or its whole process holds the others up."""

from __future__ import annotations

from tests.case_writer import COLLECTIVE, Job, write_logs
from tests.cases.make_control_flow import LOOP

TWO_GROUPS = """
import torch.distributed as dist


def main():
    rows, columns = make_groups()
    for batch in make_loader():
        rank = dist.get_rank()
        first, second = order(rank)
        dist.all_reduce(a, group=rows)
        dist.all_reduce(b, group=columns)


main()
"""
SAVE = """
import torch
import torch.distributed as dist


def main():
    for batch in make_loader():
        dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), "model.pt")
        lookup(batch)


def lookup(batch):
    count = 0
    while not ready(batch):
        count += 1
    return count


main()
"""
VALIDATE = """
import torch
import torch.distributed as dist


def main():
    for epoch in range(10):
        for batch in make_loader():
            dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            validate(model, make_validation_loader())


def validate(model, loader):
    total = 0.0
    for images, labels in loader:
        total += accuracy(model(images), labels)
    return total / len(loader)


main()
"""
FETCH = """
import torch.distributed as dist


def main():
    for step in range(1000):
        if dist.get_rank() == 0:
            batch = fetch()
        dist.broadcast(batch, 0)


def fetch():
    return next(batches)


main()
"""
AT, SAVING = "dist.all_reduce(step(batch))", 'torch.save(model.state_dict(), "model.pt")'
SPINNING = "count += 1 < lookup(batch)"
WAIT_FOR_BATCH = (
    "wait (threading.py:324) < get (queue.py:180) < _try_get_data (torch/utils/data/dataloader.py:1251)"
    " < _get_data (torch/utils/data/dataloader.py:1402) < _next_data (torch/utils/data/dataloader.py:1445)"
    " < __next__ (torch/utils/data/dataloader.py:701)"
)
WORKER = (
    "poll (selectors.py:415) < get (multiprocessing/queues.py:113)"
    " < _worker_loop (torch/utils/data/_utils/worker.py:327) < run (multiprocessing/process.py:108)"
)


def make() -> None:
    """Write all of them."""
    _orders()
    _single_rank_work()
    _loader()
    _frozen()
    _slow_rank()
    _unknown()
    _unknown_gaps()


def stalled(
    laggard: int = 0,
    ranks: int = 4,
    program: str = SAVE,
    backend: str = "nccl",
    *,
    at: str = AT,
    operation: str = "all_reduce",
) -> Job:
    """Everyone but ``laggard`` waits at position 41 of the training loop, with dumps and stacks."""
    job = Job(program, ranks, backend=backend)
    others = [rank for rank in range(ranks) if rank != laggard]
    job.history(range(ranks), 40, at, operation=operation)
    job.call(others, 41, operation, at, open=True)
    job.dump(*range(ranks))
    job.waits(others, operation, at)
    return job


def _orders() -> None:
    rows, columns = "dist.all_reduce(a, group=rows)", "dist.all_reduce(b, group=columns)"
    job = Job(TWO_GROUPS, 2, groups={"1": (0, 1), "2": (0, 1)}, backend="nccl")
    job.history((0, 1), 5, rows, group="1")
    job.history((0, 1), 5, columns, group="2")
    job.call((0,), 6, "all_reduce", rows, open=True, group="1")
    job.call((1,), 6, "all_reduce", columns, open=True, group="2")
    job.dump(0, 1)
    circle = {"cause": "deadlock-order", "ranks": [0, 1], "status": "hang"}
    job.write("deadlock-order/hit_circle_of_two_groups", {**circle, "certainty_at_least": "likely"}, source=False)
    job.call((0,), 6, "all_reduce", columns, open=True, group="2")
    job.call((1,), 6, "all_reduce", rows, open=True, group="1")
    job.dump(0, 1)
    job.write("deadlock-order/unsure_queued_in_opposite_order", {**circle, "certainty_at_most": "likely"})

    job = Job(TWO_GROUPS, 3, groups={"1": (0, 1), "2": (1, 2)}, backend="nccl")
    job.history((0, 1), 5, rows, group="1")
    job.history((1, 2), 5, columns, group="2")
    job.call((0,), 6, "all_reduce", rows, open=True, group="1")
    job.call((1,), 6, "all_reduce", columns, open=True, group="2")
    job.dump(0, 1, 2)
    job.waits((0,), "all_reduce", rows)
    job.waits((1,), "all_reduce", columns)
    saving = "_save (torch/serialization.py:1214) < save (torch/serialization.py:967)"
    job.stack(2, "first, second = order(rank)", saving, state="active")
    chain = {"not_cause": "deadlock-order", "cause": "single-rank-work", "ranks": [2], "phase": "save"}
    job.write("deadlock-order/miss_chain_of_groups", chain)

    job = Job(TWO_GROUPS, 4, groups={"1": (0, 1), "2": (2, 3)}, backend="gloo")
    job.missing = {2, 3}
    job.history((0, 1), 5, rows)
    ending = "destroy_process_group (torch/distributed/distributed_c10d.py:2300)"
    for rank in (0, 1):
        job.stack(rank, "main()", ending)
    half = {"cause": "deadlock-order", "ranks_missing": [2, 3], "certainty_at_most": "likely", "phase": "shutdown"}
    job.write("deadlock-order/unsure_teardown_of_half_the_ranks", half)


def _single_rank_work() -> None:
    saving = "_save (torch/serialization.py:1214) < save (torch/serialization.py:967)"
    job = stalled()
    job.stack(0, SAVING, saving, state="active")
    job.process(0, state="D")
    found = {"cause": "single-rank-work", "ranks": [0], "phase": "save", "where": job.place(SAVING)}
    found |= {"waiter_where": job.place(AT), "status": "hang", "certainty_at_least": "likely"}
    job.write("single-rank-work/hit_rank_0_saves", found)
    job.write("single-rank-work/hit_rank_0_saves_without_source", found, source=False)
    for name in list(job.files):
        if name.startswith("dumps/"):
            del job.files[name]
    job.write("single-rank-work/hit_rank_0_saves_stacks_only", {**found, "certainty_at_least": "likely"})
    job.missing = {2, 3}
    job.files = {name: data for name, data in job.files.items() if name[-5] not in "23"}
    half = {**found, "ranks_missing": [2, 3], "certainty_at_most": "likely"}
    job.write("single-rank-work/unsure_half_the_ranks", half)

    job = stalled(backend="gloo")
    job.stack(0, SPINNING, state="active")
    job.write(
        "single-rank-work/unsure_computing_seen_once",
        {"cause": "single-rank-work", "ranks": [0], "certainty_at_most": "likely"},
    )

    job = stalled()
    job.stack(0, SAVING, saving)
    job.process(0, state="T")
    frozen = {"not_cause": "single-rank-work", "cause": "rank-frozen", "ranks": [0], "where": job.place(SAVING)}
    job.write("single-rank-work/miss_stopped_while_it_saved", frozen)

    inside, saving_last = "dist.all_reduce(loss)", "save(loss)"
    job = Job(LOOP, 3, backend="gloo")
    job.history(range(3), 40, inside)
    job.call((0, 1), 41, "all_reduce", inside, open=True)
    job.dump(0, 1, 2)
    job.waits((0, 1), "all_reduce", inside)
    job.stack(2, saving_last, saving)
    early = {"not_cause": "single-rank-work", "cause": "uneven-data", "ranks": [2], "where": job.place(saving_last)}
    job.write("single-rank-work/miss_saves_after_its_loop", early)


def _loader() -> None:
    job = stalled(laggard=2)
    job.stack(2, "for batch in make_loader():", WAIT_FOR_BATCH)
    reading = "read (fsspec/spec.py:2080) < _worker_loop (torch/utils/data/_utils/worker.py:349)"
    job.stack(2, "", reading + " < run (multiprocessing/process.py:108)", pid=4900, name="rank_2_worker_4900.txt")
    found = {"cause": "slow-data-loading", "ranks": [2], "phase": "data", "status": "hang"}
    found |= {"where": job.place("for batch in make_loader():"), "waiter_where": job.place(AT)}
    job.write("slow-data-loading/hit_loader_waits", {**found, "certainty_at_least": "likely"})
    job.missing = {3}
    job.files = {name: data for name, data in job.files.items() if not name.split(".")[0].endswith("3")}
    missing = {**found, "ranks_missing": [3], "certainty_at_most": "likely"}
    job.write("slow-data-loading/unsure_a_rank_is_missing", missing)

    job = stalled(laggard=2)
    job.stack(2, "for batch in make_loader():", WAIT_FOR_BATCH)
    job.process(2, moving=None)
    job.write("slow-data-loading/unsure_seen_once", {**found, "certainty_at_most": "likely"})
    job.process(2, moving=True)
    job.write("slow-data-loading/unsure_it_moves", {**found, "certainty_at_most": "likely"})

    validating = "for images, labels in loader: < validate(model, make_validation_loader())"
    job = stalled(program=VALIDATE)
    job.stack(0, validating, WAIT_FOR_BATCH)
    job.process(0, moving=True)
    alone = {"not_cause": "slow-data-loading", "cause": "single-rank-work", "ranks": [0]}
    alone |= {"where": job.place("for images, labels in loader:"), "waiter_where": job.place(AT)}
    job.write("slow-data-loading/miss_rank_0_validates_alone", alone)
    job.process(0, moving=None)
    job.write("slow-data-loading/miss_rank_0_validates_alone_seen_once", alone)
    job.process(0, moving=True)
    thin = {"cause": "slow-data-loading", "ranks": [0], "certainty_at_most": "likely"}
    job.write("slow-data-loading/unsure_a_loop_without_its_source", thin, source=False)

    forward = "forward (torch/nn/modules/conv.py:554) < _call_impl (torch/nn/modules/module.py:1773)"
    computing = "total += accuracy(model(images), labels) < validate(model, make_validation_loader())"
    job.stack(0, computing, forward, name="rank_0.1.txt")
    job.write("slow-data-loading/miss_it_computed_between_two_batches", alone, source=False)

    job = stalled(program=FETCH, at="dist.broadcast(batch, 0)", operation="broadcast")
    job.stack(0, "return next(batches) < batch = fetch()", WAIT_FOR_BATCH)
    job.write("slow-data-loading/hit_one_rank_loads_for_all", {"cause": "slow-data-loading", "ranks": [0]})

    job = stalled(laggard=2)
    job.stack(2, SAVING, "_save (torch/serialization.py:1214) < save (torch/serialization.py:967)")
    job.stack(1, "", WORKER, pid=4901, name="rank_1_worker_4901.txt")
    job.stack(2, "", WORKER, pid=4902, name="rank_2_worker_4902.txt")
    idle = {"not_cause": "slow-data-loading", "cause": "single-rank-work", "ranks": [2]}
    job.write("slow-data-loading/miss_idle_workers", idle)


def _frozen() -> None:
    job = stalled(laggard=1)
    del job.files["dumps/nccl_trace_rank_1"]
    job.stack(1, "lookup(batch)")
    job.process(1, state="T")
    found = {"cause": "rank-frozen", "ranks": [1], "status": "hang", "certainty": "certain"}
    job.write("rank-frozen/hit_state_T", {**found, "where": job.place("lookup(batch)"), "waiter_where": job.place(AT)})
    job.process(1, state="t")
    job.write("rank-frozen/hit_held_by_a_debugger", {"cause": "rank-frozen", "ranks": [1]})

    job = stalled(laggard=1)
    del job.files["dumps/nccl_trace_rank_1"]
    job.stack(1, "lookup(batch)", state="active+gil")
    job.process(1, state="R")
    once = {"cause": "rank-frozen", "ranks": [1], "certainty_at_most": "likely", "where": job.place("lookup(batch)")}
    job.write("rank-frozen/unsure_lock_held_in_one_look", once)

    job = stalled(laggard=1)
    job.stack(1, SPINNING, state="active+gil")
    job.stack(1, SPINNING, state="active+gil", name="rank_1.1.txt")
    job.process(1, state="R")
    busy = {"not_cause": "rank-frozen", "cause": "single-rank-work", "ranks": [1]}
    job.write("rank-frozen/miss_busy_loop_that_answers", busy)

    job = stalled(laggard=1)
    prompt = "cmdloop (cmd.py:126) < interaction (pdb.py:396) < user_line (pdb.py:271)"
    job.stack(1, "lookup(batch)", prompt)
    asked = {"not_cause": ["rank-frozen", "rank-crashed"], "ranks": [1], "status": "hang", "exit_code": 1}
    job.write("rank-frozen/miss_waits_at_a_breakpoint", asked)


def _slow_rank() -> None:
    for looks, case in ((2, "unsure_two_looks"), (5, "hit_five_looks")):
        job = Job(SAVE, 3, backend="gloo")
        for look in range(looks):
            name = "rank_{}.txt" if look == looks - 1 else f"rank_{{}}.{look + 1}.txt"
            for rank in (0, 1):
                library = f"all_reduce ({COLLECTIVE}:3042)"
                job.stack(rank, AT, library, name=name.format(rank))
            job.stack(2, SPINNING, state="active", name=name.format(2))
        for rank in range(3):
            job.process(rank, moving=True)
        if looks == 5:
            _nobody_moves(job)
        slow = {"cause": "slow-rank", "ranks": [2], "status": "slow", "exit_code": 1}
        level = {"certainty": "likely"} if looks == 5 else {"certainty_at_most": "possible"}
        job.write(f"slow-rank/{case}", {**slow, **level})


def _nobody_moves(job: Job) -> None:
    """The same looks in a job that stands: a stall, not a slow rank."""
    moving = dict(job.processes)
    for rank in range(3):
        job.process(rank, moving=False)
    stuck = {"not_cause": "slow-rank", "cause": "single-rank-work", "ranks": [2], "status": "hang"}
    job.write("slow-rank/miss_nobody_moves", stuck)
    job.processes = moving


def _unknown() -> None:
    job = Job(SAVE, 4)
    job.history(range(4), 40, AT)
    job.call(range(4), 41, "all_reduce", AT, open=True)
    job.dump(0, 1, 2, 3)
    joined = {"cause": "unknown", "ranks": [], "status": "hang", "exit_code": 1, "group": "default_pg"}
    joined |= {"where": job.place(AT), "also": ["network-fault", "gpu-hardware"]}
    job.write("unknown/hit_all_joined_dumps_only", joined, source=False, manifest=False)

    job = stalled(laggard=3)
    for name in list(job.files):
        if name.startswith("stacks/"):
            del job.files[name]
    lag = {"cause": "unknown", "ranks": [3], "status": "hang", "exit_code": 1}
    job.write("unknown/hit_laggard_without_a_stack", lag, source=False, manifest=False)
    job.dump(3, name="nccl_trace_rank_{rank}.old")
    job.write("unknown/hit_two_dumps_of_one_rank", lag, source=False, manifest=False)

    job = Job(SAVE, 4)
    for rank in range(4):
        job.status(rank, 40 if rank == 3 else 41, 40)
    job.dump(0, 1, 2, 3, entries=False)
    job.write("unknown/hit_recorder_off_status_only", lag, source=False, manifest=False)

    job = stalled(laggard=3)
    saving = "_save (torch/serialization.py:1214) < save (torch/serialization.py:967)"
    job.stack(3, SAVING, saving)
    job.write("unknown/miss_the_stack_tells", {"not_cause": "unknown", "cause": "single-rank-work", "ranks": [3]})


def _unknown_gaps() -> None:
    job = Job(SAVE, 4)
    job.history((0, 1), 40, AT)
    job.call((0, 1), 41, "all_reduce", AT, open=True)
    job.dump(0, 1)
    silent = {"cause": "unknown", "ranks_missing": [2, 3], "certainty_at_most": "possible", "ranks": []}
    job.write("unknown/unsure_half_the_dumps", silent, source=False, manifest=False)

    old = Job(SAVE, 2)
    old.history(range(2), 900, AT, later_s=-90_000)
    old.call((0,), 901, "all_reduce", AT, open=True, later_s=-90_000)
    old.dump(0, 1, name="yesterday/nccl_trace_rank_{rank}")
    new = stalled(laggard=3)
    new.files = {name: data for name, data in new.files.items() if name.startswith("dumps/")} | old.files
    mixed = {"cause": "unknown", "ranks": [3], "certainty_at_most": "likely", "world_size": 4}
    new.write("unknown/unsure_dumps_of_two_jobs", mixed, source=False, manifest=False)

    line = (
        "[rank{rank}]:[E1009 08:53:20.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective"
        " operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=12, NumelOut=12, Timeout(ms)=600000)"
        " ran for 600012 milliseconds before timing out.\n"
    )
    write_logs(
        "unknown/unsure_timeouts_only",
        {f"rank{rank}.log": "step 40 loss 1.0\n" + line.format(rank=rank) for rank in range(3)},
        {"cause": "unknown", "certainty_at_most": "likely", "status": "hang", "exit_code": 1},
    )
