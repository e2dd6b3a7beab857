"""Cases in which the program marked the work for which the others wait (``unhang.phase``)."""

from __future__ import annotations

from typing import Any

from tests.case_writer import START_NS, Job
from tests.cases.make_failures import TIMED_OUT

EVALUATION = """
import unhang
import torch.distributed as dist


def main():
    for batch in make_loader():
        dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            with unhang.phase("evaluation", at_most_s=ALLOWED):
                score(batch)


def score(batch):
    total = 0
    for word in generate(batch):
        total += len(word)
    return total


main()
"""
AT, SCORING = "dist.all_reduce(step(batch))", "total += len(word) < score(batch)"
WAITING_SINCE_S, LIMIT_S = 41, 600


def make() -> None:
    """Write all of them."""
    make_guarded()
    late = {"ranks": [0], "waiter_where": evaluating(0, None).place(AT)}
    near = LIMIT_S - 40
    short = {**late, "cause": "timeout-too-short", "status": "hang"}
    evaluating(near, 1800.0).write(
        "timeout-too-short/hit_marked_evaluation_outlasts_the_limit",
        {**short, "certainty_at_least": "likely", "phase": "eval", "says": ["evaluation", "1800 s at most"]},
    )
    ended(1800.0).write(
        "timeout-too-short/hit_the_limit_passed_in_a_marked_evaluation",
        {"cause": "timeout-too-short", "ranks": [0], "certainty_at_least": "likely", "says": ["as planned", "1800 s"]},
    )
    ended(None).write(
        "timeout-too-short/unsure_the_limit_passed_in_a_mark_without_a_bound",
        {"cause": "timeout-too-short", "ranks": [0], "certainty_at_most": "likely"},
    )
    evaluating(near, LIMIT_S - 10.0).write(
        "timeout-too-short/miss_marked_evaluation_ends_in_time",
        {"not_cause": "timeout-too-short", "status": "healthy"},
    )
    evaluating(50, 300.0).write(
        "single-rank-work/hit_marked_and_within_its_bound_is_a_note",
        {"cause": "single-rank-work", "ranks": [0], "status": "healthy", "says": ["may take up to 300 s"]},
    )
    evaluating(50, 30.0).write(
        "single-rank-work/hit_marked_and_too_long",
        {**late, "cause": "single-rank-work", "status": "slow", "says": ["evaluation for 50 s", "allows 30 s"]},
    )
    stopped = evaluating(50, 300.0, state="T")
    stopped.write(
        "single-rank-work/miss_stopped_in_a_marked_evaluation",
        {"not_cause": "single-rank-work", "cause": "rank-frozen", "ranks": [0], "status": "hang"},
    )


def evaluating(gone_s: float, at_most_s: float | None, *, state: str = "R") -> Job:
    """A look at a job that lives: rank 0 has evaluated for ``gone_s``, the others have waited as long."""
    job = Job(EVALUATION, 3)
    job.history(range(3), 40, AT)
    job.call((1, 2), WAITING_SINCE_S, "all_reduce", AT, open=True)
    job.dump(0, 1, 2)
    job.waits((1, 2), "all_reduce", AT)
    job.stack(0, SCORING, state="active" if state == "R" else "idle")
    since_s = START_NS / 1e9 + WAITING_SINCE_S
    job.manifest = {"live": True, "stalled_since_s": since_s, "taken_s": since_s + gone_s, "limit_s": None}
    for rank in range(3):
        job.process(rank, killed_by_us=False)
    job.process(0, killed_by_us=False, state=state, moving=state == "R", marked=marked(gone_s, at_most_s))
    return job


def ended(at_most_s: float | None) -> Job:
    """The limit passed: the waiters gave up, the launcher ended rank 0 in its evaluation."""
    job = evaluating(LIMIT_S, at_most_s)
    job.manifest = {"live": False, "limit_s": None}
    for rank in (1, 2):
        job.log(f"attempt_0/{rank}/stderr.log", TIMED_OUT.format(rank=rank, second=20))
        job.process(rank, killed_by_us=False, exit_code=-6, ended_s=START_NS / 1e9 + 642)
    told = marked(LIMIT_S, at_most_s)
    end = {"exit_code": -15, "terminated_by_launcher": True, "ended_s": START_NS / 1e9 + 643}
    job.process(0, killed_by_us=False, state="", moving=None, marked=told, **end)
    return job


def marked(gone_s: float, at_most_s: float | None) -> dict[str, Any]:
    """As the manifest spells it."""
    bound = {} if at_most_s is None else {"at_most_s": at_most_s}
    return {"label": "evaluation", "phase": "eval", "gone_s": float(gone_s), **bound}


GUARDED = """
import unhang
import torch.distributed as dist


def main():
    with unhang.rank_zero_first("tokenisation"):
        data = dataset.map(tokenize)
    for batch in make_loader(data):
        dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            save(batch)


def save(batch):
    with unhang.together("save"):
        torch.save(batch)


main()
"""
BARRIER_INSIDE = GUARDED.replace("data = dataset.map(tokenize)", "data = dataset.map(tokenize)\n        dist.barrier()")
INSIDE = "dist.barrier()"
FIRST, TOKENISING = 'with unhang.rank_zero_first("tokenisation"):', "data = dataset.map(tokenize)"
STEP, SAVING = "dist.all_reduce(step(batch))", 'with unhang.together("save"): < save(batch)'
_ASKS = "do (unhang/guards/connection.py:68) < poll (unhang/guards/meeting.py:115)"
IN_FIRST = (
    f"{_ASKS} < wait_for (unhang/guards/meeting.py:128) < for_the_first (unhang/guards/rank_zero_first.py:150)"
    " < _take_part (unhang/guards/rank_zero_first.py:103) < __enter__ (unhang/guards/rank_zero_first.py:69)"
)
IN_TOGETHER = (
    f"{_ASKS} < wait_for (unhang/guards/meeting.py:128) < _wait_settled (unhang/guards/meeting.py:190)"
    " < gather (unhang/guards/meeting.py:90) < _meet (unhang/guards/together.py:73)"
    " < __init__ (unhang/guards/together.py:46)"
)
MAPPING = "map (datasets/arrow_dataset.py:3100) < wrapper (datasets/arrow_dataset.py:560)"


def make_guarded() -> None:
    """Ranks that wait in a guard, on the store."""
    job = Job(GUARDED, 3)
    job.stack(0, TOKENISING, MAPPING, state="active")
    for rank in (1, 2):
        job.stack(rank, FIRST, IN_FIRST)
    found = {"cause": "single-rank-work", "ranks": [0], "where": job.place(TOKENISING), "phase": "data"}
    found |= {"waiter_where": job.place(FIRST), "says": ["unhang.rank_zero_first"]}
    job.write("single-rank-work/hit_the_others_wait_in_a_guard", {**found, "status": "hang"})

    job.manifest = {"live": True, "limit_s": None}
    waits = {"what": "rank_zero_first('tokenisation')", "ranks": [0], "waited_s": 30.0}
    for rank in (1, 2):
        job.process(rank, killed_by_us=False, guard_wait=waits)
    told = {"label": "tokenisation", "phase": "data", "gone_s": 30.0}
    job.process(0, killed_by_us=False, state="R", moving=True, marked=told)
    job.write("single-rank-work/hit_the_others_wait_in_a_guard_as_planned", {**found, "status": "healthy"})

    job = Job(GUARDED, 3, backend="gloo")
    job.history(range(3), 40, STEP)
    job.call((1, 2), 41, "all_reduce", STEP, open=True)
    job.dump(0, 1, 2)
    job.waits((1, 2), "all_reduce", STEP)
    job.stack(0, SAVING, IN_TOGETHER)
    conditional = {"cause": "rank-conditional-collective", "ranks": [0], "status": "hang"}
    conditional |= {"where": job.place(SAVING.split(" < ", maxsplit=1)[0])}
    job.write("rank-conditional-collective/hit_a_guard_that_only_one_rank_reaches", conditional)

    job = Job(BARRIER_INSIDE, 3, backend="gloo")
    job.call((0,), 1, "barrier", INSIDE, open=True)
    job.dump(0, 1, 2)
    job.waits((0,), "barrier", INSIDE)
    for rank in (1, 2):
        job.stack(rank, FIRST, IN_FIRST)
    inside = {"cause": "rank-conditional-collective", "ranks": [0], "status": "hang", "where": job.place(INSIDE)}
    inside |= {"waiter_where": job.place(FIRST), "says": ["inside unhang.rank_zero_first"]}
    job.write("rank-conditional-collective/hit_a_barrier_inside_rank_zero_first", inside)
