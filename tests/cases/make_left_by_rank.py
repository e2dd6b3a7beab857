"""Jobs in which the rank says how many steps it makes, and jobs that only look so."""

from __future__ import annotations

from tests.case_writer import Job

BREAK = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    n = 1000
    for step in range(5000):
        if step >= n + 40 * (1 - rank):
            break
        dist.all_reduce(forward())
    dist.barrier()


main()
"""
SINGLED_OUT = """
import os
import torch.distributed as dist

rank = int(os.environ["RANK"])
for step, batch in enumerate(make_loader()):
    dist.all_reduce(forward(batch))
    if rank == 2:
        report(step)
        if step == args.max_steps:
            break
dist.barrier()
"""
RETURN = """
import torch.distributed as dist


class Trainer:
    def __init__(self):
        self.rank = dist.get_rank()

    def fit(self, loader):
        step = 0
        while True:
            dist.all_reduce(forward(next(loader)))
            step += 1
            if self.rank == 0 and step == 12:
                return
            if step >= 100:
                return


def main():
    trainer = Trainer()
    trainer.fit(make_loader())
    dist.barrier()


main()
"""
WHILE = """
import torch.distributed as dist


def main():
    rank, step = dist.get_rank(), 0
    while step < 1000 + 40 * rank:
        dist.all_reduce(forward())
        step += 1


main()
"""
CONTINUE = BREAK.replace("            break", "            continue")
BY_NAME = BREAK.replace("def main():\n    rank = dist.get_rank()\n", "def main(rank):\n").replace(
    "\nmain()\n", "\nlaunch(main)\n"
)
OTHER_RANK = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for step, batch in enumerate(make_loader()):
        if rank == 0 and step == 100:
            break
        dist.all_reduce(forward(batch))
    dist.barrier()


main()
"""
FINDING = """
import torch.distributed as dist


def main():
    rank, bad = dist.get_rank(), 0
    for step in range(5000):
        dist.all_reduce(forward())
        if worse():
            bad += 1
        if rank == 0 and bad >= 3:
            break
    dist.barrier()


main()
"""
AT, PAST = "dist.all_reduce(forward())", "dist.barrier()"


def make() -> None:
    """Write all of them."""
    _breaks()
    _returns()
    _ended()
    _look_alikes()


def _parted(program: str, early: tuple[int, ...], late: tuple[int, ...], at: str = AT, past: str = PAST) -> Job:
    """``early`` has come to the barrier, ``late`` is in the next step."""
    ranks = sorted((*early, *late))
    job = Job(program, len(ranks), backend="gloo")
    job.history(ranks, 40, at)
    job.call(late, 41, "all_reduce", at, open=True)
    job.call(early, 41, "barrier", past, open=True, size=(1,))
    job.dump(*ranks)
    job.waits(late, "all_reduce", at)
    job.waits(early, "barrier", past)
    return job


def _breaks() -> None:
    job = _parted(BREAK, (1, 2), (0,))
    found = {"status": "hang", "cause": "uneven-data", "ranks": [1, 2], "where": job.place(PAST)}
    found |= {"waiter_where": job.place(AT), "says": ["line 9 leaves the loop (break)", "n + 40 * (1 - rank)"]}
    job.write("uneven-data/hit_the_rank_says_how_many_steps", {**found, "certainty": "certain"})

    at = "dist.all_reduce(forward(batch))"
    job = _parted(SINGLED_OUT, (2,), (0, 1), at)
    found = {"status": "hang", "cause": "uneven-data", "ranks": [2], "where": job.place(PAST), "certainty": "likely"}
    says = ["rank == 2 and step == args.max_steps", "may also have run out earlier"]
    job.write("uneven-data/hit_one_rank_breaks_at_a_step", {**found, "waiter_where": job.place(at), "says": says})


def _returns() -> None:
    at, past = "dist.all_reduce(forward(next(loader))) < trainer.fit(make_loader())", PAST
    job = _parted(RETURN, (0,), (1, 2), at, past)
    found = {"status": "hang", "cause": "uneven-data", "ranks": [0], "where": job.place(PAST), "certainty": "certain"}
    says = ["leaves the loop (return)", "self.rank == 0 and step == 12"]
    job.write("uneven-data/hit_one_rank_returns_at_a_step", {**found, "says": says})


def _ended() -> None:
    job = Job(WHILE, 3, backend="gloo")
    job.history(range(3), 40, AT)
    job.call((1, 2), 41, "all_reduce", AT, open=True)
    job.dump(1, 2)
    job.waits((1, 2), "all_reduce", AT)
    job.process(0, exit_code=0, killed_by_us=False, state="")
    found = {"status": "hang", "cause": "uneven-data", "ranks": [0], "waiter_where": job.place(AT)}
    says = ["how often the loop at line 6 runs depends on the rank", "step < 1000 + 40 * rank"]
    job.write("uneven-data/hit_a_while_loop_on_the_rank", {**found, "certainty": "certain", "says": says})


def _look_alikes() -> None:
    job = _parted(BY_NAME, (1, 2), (0,))
    doubt = {"status": "hang", "cause": "uneven-data", "ranks": [1, 2], "certainty_at_most": "likely"}
    job.write("uneven-data/unsure_only_a_name_says_it_is_the_rank", doubt)

    job = _parted(CONTINUE, (1, 2), (0,))
    job.write(
        "uneven-data/miss_the_rank_skips_steps",
        {"not_cause": "uneven-data", "cause": "rank-conditional-collective", "status": "hang"},
    )

    job = _parted(OTHER_RANK, (2,), (0, 1), "dist.all_reduce(forward(batch))")
    found = {"status": "hang", "ranks": [2], "where": job.place(PAST)}
    job.write("uneven-data/hit_a_break_of_another_rank", {**found, "cause": "uneven-data", "says": ["out of batches"]})

    job = _parted(FINDING, (0,), (1, 2))
    found = {"status": "hang", "ranks": [0], "where": job.place(PAST), "says": ["rank == 0 and bad >= 3"]}
    job.write(
        "rank-conditional-collective/hit_one_rank_stops_on_what_it_found",
        {**found, "cause": "rank-conditional-collective"},
    )
