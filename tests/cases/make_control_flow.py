"""Cases in which the way to a collective differs between ranks, and cases that only look like it."""

from __future__ import annotations

from tests.case_writer import Job

LOOP = """
import torch.distributed as dist


def main():
    loader = make_loader()
    for batch in loader:
        loss = step(batch)
        dist.all_reduce(loss)
    dist.barrier()
    save(loss)


main()
"""
LOOP_WITH_BREAK = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for batch in make_loader():
        loss = step(batch)
        if rank == 0 and loss < 0.1:
            break
        dist.all_reduce(loss)
    dist.barrier()


main()
"""
EVALUATION = """
import torch.distributed as dist


def evaluate(model, loader):
    for batch in loader:
        score = model(batch)
        dist.all_reduce(score)


def main():
    for epoch in range(10):
        for batch in make_loader():
            dist.all_reduce(step(batch))
        evaluate(model, test_loader)


main()
"""
METRIC = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for batch in make_loader():
        loss = step(batch)
        if rank == 0:
            metric = score(loss)
            dist.all_reduce(metric)
            print(metric)
        dist.barrier()


main()
"""
EARLY_RETURN = """
import torch.distributed as dist


def checkpoint(model):
    if dist.get_rank() != 0:
        return
    state = shards(model)
    dist.all_gather(parts, state)


def main():
    for batch in make_loader():
        loss = step(batch)
        dist.all_reduce(loss)
        checkpoint(model)


main()
"""
SKIPPED_AT_TIMES = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for step, batch in enumerate(make_loader()):
        grad = gradient(batch)
        if rank == 1 and step % 50 == 0:
            continue
        dist.all_reduce(grad)
        if step % 20 == 0:
            dist.broadcast(loss, src=0)


main()
"""
MAIN_PROCESS_FIRST = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    if rank != 0:
        dist.barrier()
    data = tokenizer(texts)
    if rank == 0:
        dist.barrier()  # lets the others in
    train(data)


main()
"""
PAIR = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    pair = dist.new_group([0, 1])
    for batch in make_loader():
        loss = step(batch)
        if rank in (0, 1):
            report = write_report(batch)
            dist.all_reduce(loss, group=pair)
        dist.all_reduce(loss)


def write_report(batch):
    return [slow(item) for item in batch]


main()
"""
GATHER = """
import torch.distributed as dist


def main():
    for batch in make_loader():
        scores = model(batch)
        dist.all_gather(everyone, scores)
        dist.all_to_all_single(out, scores, splits_out, splits_in)


main()
"""
AT, PAST = "dist.all_reduce(loss)", "dist.barrier()"


def make() -> None:
    """Write all of them."""
    _uneven_data()
    _uneven_data_look_alikes()
    _branches()
    _branch_look_alikes()
    _mismatches()
    _mismatch_look_alikes()


def _past_the_loop() -> Job:
    job = Job(LOOP, 4, backend="gloo")
    job.history(range(4), 40, AT)
    job.call((0, 1, 2), 41, "all_reduce", AT, open=True)
    job.call((3,), 41, "barrier", PAST, open=True, size=(1,))
    return job


def _uneven_data() -> None:
    job = _past_the_loop()
    job.dump(0, 1, 2, 3)
    job.waits((0, 1, 2), "all_reduce", AT)
    job.waits((3,), "barrier", PAST)
    found = {"cause": "uneven-data", "ranks": [3], "where": job.place(PAST), "waiter_where": job.place(AT)}
    job.write("uneven-data/hit_past_the_loop", {**found, "certainty": "certain", "status": "hang"})
    job.write(
        "uneven-data/miss_no_source_only_another_call",
        {"not_cause": "uneven-data", "ranks": [3], "certainty_at_most": "likely", "status": "hang", "exit_code": 1},
        source=False,
    )

    job = _past_the_loop()
    job.missing = {2}
    job.dump(0, 1, 3)
    missing = {**found, "ranks_missing": [2], "certainty_at_most": "likely", "certainty_at_least": "likely"}
    job.write("uneven-data/unsure_a_rank_is_missing", missing)

    job = Job(LOOP, 3, backend="gloo")
    job.history(range(3), 40, AT)
    job.call((0, 1), 41, "all_reduce", AT, open=True)
    job.dump(0, 1)
    job.waits((0, 1), "all_reduce", AT)
    job.process(2, exit_code=0, killed_by_us=False, state="")
    ended = {"cause": "uneven-data", "ranks": [2], "status": "hang", "waiter_where": job.place(AT)}
    job.write("uneven-data/hit_ended_with_zero", {**ended, "certainty": "certain"})
    honest = {"ranks": [2], "certainty_at_most": "likely", "also": ["uneven-data"]}
    job.write("uneven-data/unsure_ended_without_source", honest, source=False)
    for rank, total in ((0, 100), (1, 100), (2, 97)):
        job.log(f"rank{rank}.log", "".join(f"step {step}/{total} loss 0.5\n" for step in range(90, 97)))
    told = {**ended, "certainty": "likely"}
    job.write("uneven-data/hit_announced_lengths_without_source", told, source=False)


def _uneven_data_look_alikes() -> None:
    job = Job(LOOP_WITH_BREAK, 3)
    job.history(range(3), 40, AT)
    job.call((1, 2), 41, "all_reduce", AT, open=True)
    job.call((0,), 41, "barrier", PAST, open=True, size=(1,))
    job.dump(0, 1, 2)
    branch = {"not_cause": ["uneven-data", "collective-mismatch"], "cause": "rank-conditional-collective"}
    job.write("uneven-data/miss_break_on_the_rank", {**branch, "ranks": [0], "where": job.place(PAST)})

    job = Job(EVALUATION, 3)
    job.history(range(3), 40, "dist.all_reduce(step(batch))")
    evaluating = "dist.all_reduce(score) < evaluate(model, test_loader)"
    job.history(range(3), 44, evaluating, first=41)
    job.dump(0, 1, 2)
    job.waits((0, 1), "all_reduce", evaluating)
    job.stack(2, "score = model(batch) < evaluate(model, test_loader)", "_call_impl (torch/nn/modules/module.py:1751)")
    for rank in range(3):
        job.process(rank, moving=True)
    job.write("uneven-data/miss_everyone_evaluates", {"not_cause": "uneven-data", "status": "healthy", "exit_code": 0})


def _branches() -> None:
    inside = "dist.all_reduce(metric)"
    job = Job(METRIC, 4, backend="gloo")
    job.history(range(4), 40, PAST, operation="barrier", size=(1,))
    job.call((0,), 41, "all_reduce", inside, open=True)
    job.call((1, 2, 3), 41, "barrier", PAST, open=True, size=(1,))
    job.dump(0, 1, 2, 3)
    found = {"cause": "rank-conditional-collective", "ranks": [0], "where": job.place(inside)}
    found["waiter_where"] = job.place(PAST)
    job.write("rank-conditional-collective/hit_metric_on_rank_0", {**found, "certainty": "certain", "status": "hang"})
    for name in list(job.files):
        del job.files[name]
    job.missing = {2}
    job.dump(0, 1, 3)
    half = {**found, "ranks_missing": [2], "certainty_at_most": "likely"}
    job.write("rank-conditional-collective/unsure_a_rank_is_missing", half)

    job = Job(METRIC, 4, backend="gloo")
    job.waits((0,), "all_reduce", inside)
    job.waits((1, 2, 3), "barrier", PAST)
    job.write(
        "rank-conditional-collective/unsure_stacks_without_source",
        {"certainty_at_most": "likely", "exit_code": 1, "not_cause": ["rank-frozen", "single-rank-work"]},
        source=False,
    )

    gather = "dist.all_gather(parts, state) < checkpoint(model)"
    job = Job(EARLY_RETURN, 4, backend="gloo")
    job.history(range(4), 40, AT)
    job.call((0,), 41, "all_gather", gather, open=True, size=(100,))
    job.call((1, 2, 3), 41, "all_reduce", AT, open=True)
    job.dump(0, 1, 2, 3)
    found = {"cause": "rank-conditional-collective", "ranks": [0], "certainty": "certain"}
    found["where"] = job.place("dist.all_gather(parts, state)")
    job.write("rank-conditional-collective/hit_early_return", found)

    for world in (2, 3):  # also where there are as many ranks on either side
        others = tuple(rank for rank in range(world) if rank != 1)
        job = Job(SKIPPED_AT_TIMES, world, backend="gloo")
        job.history(range(world), 40, "dist.all_reduce(grad)")
        job.call((1,), 41, "broadcast", "dist.broadcast(loss, src=0)", open=True, size=(1,))
        job.call(others, 41, "all_reduce", "dist.all_reduce(grad)", open=True)
        job.dump(*range(world))
        found = {"cause": "rank-conditional-collective", "ranks": [1], "certainty": "certain"}
        found["waiter_where"] = job.place("dist.all_reduce(grad)")
        job.write(f"rank-conditional-collective/hit_gone_around_at_times_of_{world}", found)


def _branch_look_alikes() -> None:
    job = Job(MAIN_PROCESS_FIRST, 4)
    program = job.program.replace("        dist.barrier()\n    data", "        dist.barrier()  # waits\n    data")
    job = Job(program, 4)
    first = "dist.barrier()  # waits"
    job.call((1, 2, 3), 1, "barrier", first, open=True, size=(1,))
    job.status(0, -1, -1)
    job.dump(0, 1, 2, 3)
    job.waits((1, 2, 3), "barrier", first)
    tokenising = "_batch_encode_plus (transformers/tokenization_utils_fast.py:552)"
    job.stack(0, "tokenizer(texts)", tokenising, state="active")
    job.process(0, moving=True, state="R")
    work = {"not_cause": "rank-conditional-collective", "cause": "single-rank-work", "ranks": [0]}
    work |= {"where": job.place("tokenizer(texts)"), "waiter_where": job.place(first), "phase": "data"}
    job.write("rank-conditional-collective/miss_main_process_first", work)

    inside = "dist.all_reduce(loss, group=pair)"
    outside = "dist.all_reduce(loss)"
    job = Job(PAIR, 4, groups={"1": (0, 1)})
    job.history(range(4), 40, outside)
    job.history((0, 1), 40, inside, group="1")
    job.call((2, 3), 41, "all_reduce", outside, open=True)
    job.call((0,), 41, "all_reduce", inside, open=True, group="1")
    job.dump(0, 1, 2, 3)
    job.waits((0,), "all_reduce", inside)
    job.waits((2, 3), "all_reduce", outside)
    busy = "return [slow(item) for item in batch] < report = write_report(batch)"
    job.stack(1, busy, state="active")
    job.process(1, moving=True, state="R")
    work = {"not_cause": "rank-conditional-collective", "cause": "single-rank-work", "ranks": [1]}
    job.write("rank-conditional-collective/miss_subgroup_with_a_busy_member", work)


def _mismatches() -> None:
    at = "dist.all_gather(everyone, scores)"
    job = Job(GATHER, 4)
    job.history(range(4), 40, at, operation="_all_gather_base", size=(2625,), output_sizes=((10500,),))
    job.call((0, 1, 3), 41, "_all_gather_base", at, open=True, size=(2625,), output_sizes=((10500,),))
    job.call((2,), 41, "_all_gather_base", at, open=True, size=(2626,), output_sizes=((10504,),))
    job.dump(0, 1, 2, 3)
    found = {"cause": "collective-mismatch", "ranks": [2], "where": job.place(at), "waiter_where": job.place(at)}
    job.write(
        "collective-mismatch/hit_one_element_more_dumps_only",
        {**found, "certainty_at_least": "likely", "status": "hang"},
        source=False,
        manifest=False,
    )

    job = Job(GATHER, 4)
    job.history(range(4), 40, at, operation="_all_gather_base", size=(2625,), output_sizes=((10500,),))
    job.call((0, 1), 41, "_all_gather_base", at, open=True, size=(2625,), output_sizes=((10500,),))
    job.call((2, 3), 41, "_all_gather_base", at, open=True, size=(2626,), output_sizes=((10504,),))
    job.dump(0, 1, 2, 3)
    tie = {"cause": "collective-mismatch", "ranks": [0, 1, 2, 3]}
    job.write("collective-mismatch/hit_tie_is_declared", tie, source=False, manifest=False)

    job = Job(GATHER, 3)
    job.history((0, 1), 40, at, operation="_all_gather_base", size=(64,), output_sizes=((192,),))
    job.call((0, 1), 41, "_all_gather_base", at, open=True, size=(64,), output_sizes=((192,),))
    job.call((2,), 41, "_all_gather_base", at, open=True, size=(65,), output_sizes=((195,),))
    job.dump(0, 1, 2)
    shifted = {"cause": "collective-mismatch", "ranks": [2], "certainty_at_most": "likely"}
    job.write("collective-mismatch/unsure_the_record_starts_at_the_stall", shifted, source=False, manifest=False)


def _mismatch_look_alikes() -> None:
    gather, exchange = "dist.all_gather(everyone, scores)", "dist.all_to_all_single(out, scores, splits_out, splits_in)"
    job = Job(GATHER, 3)
    job.history(range(3), 40, gather, operation="all_gather")
    for rank, size in ((0, 10), (1, 12), (2, 9)):
        parts = {"open": rank != 2, "size": (size,), "output_sizes": ((31 - size,),)}
        if rank != 2:
            job.call((rank,), 41, "all_to_all", exchange, **parts)
    job.dump(0, 1, 2)
    lag = {"not_cause": "collective-mismatch", "cause": "unknown", "ranks": [2], "exit_code": 1}
    job.write("collective-mismatch/miss_uneven_all_to_all", lag, source=False, manifest=False)

    job = Job(GATHER, 3)
    job.history(range(3), 40, gather, operation="all_gather")
    for rank, size in ((0, 10), (1, 12)):
        job.call((rank,), 41, "all_gather", gather, open=True, size=(size,), output_sizes=((10,), (12,), (9,)))
    job.dump(0, 1, 2)
    job.write("collective-mismatch/miss_uneven_list_of_gathers", lag, source=False, manifest=False)

    job = Job(GATHER, 3)
    job.history(range(3), 40, gather)
    job.call((0,), 41, "all_reduce", gather, open=True, size=(4, 6))
    job.call((1,), 41, "all_reduce", gather, open=True, size=(24,))
    job.dump(0, 1, 2)
    job.write("collective-mismatch/miss_other_shape_same_elements", lag, source=False, manifest=False)

    job = Job(GATHER, 4)
    for rank, first, skew in ((0, 1, 0), (1, 30, 1000), (2, 36, 7), (3, 20, 3)):
        for position in range(first, 41):
            shape = (position % 5 + 1,)
            job.call((rank,), position, "all_reduce", gather, size=shape, first_record=skew)
    for position in range(41, 41 + 3):
        job.call((0, 1, 3), position, "all_reduce", gather, open=True, size=(position % 5 + 1,))
    job.call((1,), 44, "all_reduce", gather, open=True, size=(5,))
    job.dump(0, 1, 2, 3)
    lag = {**lag, "ranks": [2]}
    job.write("collective-mismatch/miss_wrapped_skewed_and_ran_ahead", lag, source=False, manifest=False)
