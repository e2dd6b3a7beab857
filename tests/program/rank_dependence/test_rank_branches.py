"""A line that only some ranks reach: the branch on the rank is seen."""

from __future__ import annotations

import pytest

from tests.facts.marked_source import kind_at, source_of
from unhang.facts.model import CodeContext
from unhang.facts.stacks.source_context import is_rank_conditional, line_context

RANK_BRANCHES = {
    "get_rank in the test": (
        """
        import torch.distributed as dist
        def main():
            if dist.get_rank() == 0:
                dist.all_reduce(x)  # HERE
        """,
        "if",
    ),
    "else of a rank test": (
        """
        def main():
            me = dist.get_rank()
            if me == 0:
                pass
            else:
                dist.barrier()  # HERE
        """,
        "else",
    ),
    "elif": (
        """
        def main():
            me = dist.get_rank()
            if flag:
                pass
            elif me > 2:
                dist.barrier()  # HERE
        """,
        "if",
    ),
    "environment variable": (
        """
        import os
        who = int(os.environ["RANK"])
        if who % 2:
            dist.barrier()  # HERE
        """,
        "if",
    ),
    "environment variable with default": (
        """
        from os import getenv
        lead = getenv("LOCAL_RANK", "0") == "0"
        def f():
            while work():
                if lead:
                    dist.barrier()  # HERE
        """,
        "if",
    ),
    "derived boolean": (
        """
        def main():
            rank, world = dist.get_rank(), dist.get_world_size()
            odd = rank % 2 == 1
            chosen = odd and world > 2
            if not chosen:
                dist.barrier()  # HERE
        """,
        "if",
    ),
    "attribute of accelerate": (
        """
        def save(accelerator):
            if accelerator.is_main_process:
                accelerator.wait_for_everyone()  # HERE
        """,
        "if",
    ),
    "own attribute": (
        """
        class Trainer:
            def __init__(self):
                self.me = dist.get_rank()
                self.writes = self.me == 0
            def end(self):
                if self.writes:
                    dist.barrier()  # HERE
        """,
        "if",
    ),
    "own function": (
        """
        def leader():
            return dist.get_rank() == 0
        def main():
            if leader():
                dist.barrier()  # HERE
        """,
        "if",
    ),
    "passed parameter": (
        """
        def report(number):
            if number == 0:
                dist.barrier()  # HERE
        def main():
            report(dist.get_rank())
        """,
        "if",
    ),
    "passed keyword through two functions": (
        """
        def inner(x, number):
            if number == 0:
                dist.barrier()  # HERE
        def outer(n):
            inner(1, number=n)
        outer(int(os.environ["RANK"]))
        """,
        "if",
    ),
    "spawned process": (
        """
        def worker(index, world):
            dist.init_process_group("gloo", rank=index, world_size=world)
            if index == 1:
                dist.barrier()  # HERE
        mp.spawn(worker, args=(4,), nprocs=4)
        """,
        "if",
    ),
    "early return": (
        """
        def main(rank):
            if rank != 0:
                return
            dist.barrier()  # HERE
        """,
        "return",
    ),
    "early return further out": (
        """
        def main():
            if dist.get_rank() != 0:
                print("not me")
                return None
            with open("x") as f:
                for _ in range(3):
                    dist.barrier()  # HERE
        """,
        "return",
    ),
    "continue": (
        """
        def main():
            for i in range(10):
                if i % 2 == 0 and local_rank == 1:
                    continue
                dist.all_reduce(x)  # HERE
        """,
        "continue",
    ),
    "exit": (
        """
        import sys
        if os.environ["RANK"] == "1":
            sys.exit(0)
        dist.barrier()  # HERE
        """,
        "exit",
    ),
    "raise": (
        """
        def main(global_rank):
            if global_rank == 3:
                raise ValueError("boom")
            dist.barrier()  # HERE
        """,
        "raise",
    ),
    "ternary": (
        """
        def main():
            x = dist.all_gather_object(a, b) if dist.get_rank() == 0 else None  # HERE
        """,
        "ternary",
    ),
    "and": (
        """
        def main():
            dist.get_rank() == 0 and dist.barrier()  # HERE
        """,
        "and-or",
    ),
    "match": (
        """
        def main():
            match dist.get_rank():
                case 0:
                    dist.barrier()  # HERE
                case _:
                    pass
        """,
        "match",
    ),
    "decorator": (
        """
        @rank_zero_only
        def save(model):
            dist.barrier()  # HERE
        """,
        "decorator",
    ),
    "decorator of an object": (
        """
        class T:
            @accelerator.on_main_process
            def save(self, model):
                if model:
                    dist.barrier()  # HERE
        """,
        "decorator",
    ),
    "async function": (
        """
        async def main():
            r = dist.get_rank()
            async with lock:
                if r == 0:
                    dist.barrier()  # HERE
        """,
        "if",
    ),
    "closure": (
        """
        def main():
            r = dist.get_rank()
            def step():
                if r:
                    dist.barrier()  # HERE
            step()
        """,
        "if",
    ),
    "walrus": (
        """
        def main():
            if (r := dist.get_rank()) == 0:
                pass
            if r == 1:
                dist.barrier()  # HERE
        """,
        "if",
    ),
    "first process of transformers": (
        """
        def load(args):
            if args.local_rank not in [-1, 0]:
                torch.distributed.barrier()  # HERE
        """,
        "if",
    ),
    "test over several lines": (
        """
        def main():
            if (
                step % 100 == 0
                and accelerator.process_index == 0
            ):
                evaluate(
                    model,
                    loader,  # HERE
                )
        """,
        "if",
    ),
    "choice by table": (
        """
        def main():
            steps = {0: 10, 1: 12}.get(dist.get_rank(), 10)
            if steps > 10:
                dist.barrier()  # HERE
        """,
        "if",
    ),
    "set by branch": (
        """
        def main():
            n = 10 if dist.get_rank() == 0 else 12
            if n == 12:
                dist.barrier()  # HERE
        """,
        "if",
    ),
}


@pytest.mark.parametrize("name", RANK_BRANCHES)
def test_a_branch_on_the_rank_is_seen(name: str) -> None:
    text, kind = RANK_BRANCHES[name]
    assert kind_at(text) == kind
    source, line = source_of(text)
    assert line_context(source, line).context is CodeContext.RANK_BRANCH


def test_a_name_alone_is_told_apart_from_a_rank_that_was_followed() -> None:
    by_name, line = source_of("def f(rank):\n    if rank == 0:\n        dist.barrier()  # HERE\n")
    followed, line_2 = source_of("def f():\n    r = dist.get_rank()\n    if r == 0:\n        dist.barrier()  # HERE\n")
    first, second = is_rank_conditional(by_name, line), is_rank_conditional(followed, line_2)
    assert first is not None
    assert not first.sure
    assert second is not None
    assert second.sure
    assert (second.line, second.test) == (3, "r == 0")
