"""A line in a loop, after it, in a handler: what runs how often, and whether the rank decides."""

from __future__ import annotations

import pytest

from tests.facts.marked_source import source_of
from unhang.facts.model import CodeContext
from unhang.facts.stacks.source_context import is_rank_conditional, line_context


@pytest.mark.parametrize(
    "header",
    [
        "for i in range(10 + dist.get_rank()):",
        "for x in data[dist.get_rank() :: dist.get_world_size()]:",
        "for i, x in enumerate(tqdm(range(steps))):",
        "while i < steps:",
    ],
)
def test_a_loop_that_runs_as_often_as_the_rank_says_is_told_on_request(header: str) -> None:
    source, line = source_of(
        f"""
        def main():
            steps = 100 // (dist.get_rank() + 1)
            i = 0
            {header}
                dist.all_reduce(x)  # HERE
        """
    )
    assert is_rank_conditional(source, line) is None
    branch = is_rank_conditional(source, line, loops=True)
    assert branch is not None
    assert (branch.kind, branch.line) == ("loop", 4)
    context = line_context(source, line)
    assert context.context is CodeContext.INSIDE_LOOP


def test_a_break_on_the_rank_makes_the_loop_depend_on_it() -> None:
    source, line = source_of(
        """
        def main():
            for i in range(10):
                dist.all_reduce(x)  # HERE
                if i == 5 and dist.get_rank() == 1:
                    break
            dist.barrier()
        """
    )
    branch = is_rank_conditional(source, line, loops=True)
    assert branch is not None
    assert (branch.kind, branch.line) == ("loop", 4)
    assert line_context(source, 6).branch is None


LOOP_CASES = {
    "in the loop": (
        """
        def main():
            for batch in loader:
                model(batch).sum().backward()  # HERE
        """,
        CodeContext.INSIDE_LOOP,
    ),
    "the loop's own line fetches the next batch": (
        """
        def main():
            for batch in loader:  # HERE
                model(batch).sum().backward()
        """,
        CodeContext.INSIDE_LOOP,
    ),
    "after the loop": (
        """
        def main():
            for batch in DataLoader(data):
                model(batch).sum().backward()
            save(model)  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "after the inner loop, in the epoch loop": (
        """
        def main():
            for epoch in range(3):
                for batch in loader:
                    model(batch).sum().backward()
                dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "in the evaluation loop after the training loop": (
        """
        def main():
            for batch in loader:
                model(batch).sum().backward()
            for batch in val_loader:
                dist.all_reduce(model(batch))  # HERE
        """,
        CodeContext.INSIDE_LOOP,
    ),
    "loop of collectives without a loader": (
        """
        def main(n):
            for i in range(n):
                dist.all_reduce(x)
            dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "loop whose step is a function": (
        """
        def one(x):
            x.backward()
        def more(x):
            one(x)
        def main(things):
            for i in things:
                more(i)
            dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "loop inside with and try": (
        """
        def main():
            try:
                with profile():
                    while True:
                        batch = next(batches)
                        train(batch)
            finally:
                pass
            dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "else of the loop": (
        """
        def main():
            for batch in loader:
                model(batch).backward()
            else:
                dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "after a loop that is no training": (
        """
        def main():
            for p in model.parameters():
                p.requires_grad = False
            dist.barrier()  # HERE
        """,
        CodeContext.PLAIN,
    ),
    "before the loop": (
        """
        def main():
            dist.barrier()  # HERE
            for batch in loader:
                model(batch).backward()
        """,
        CodeContext.PLAIN,
    ),
    "handler": (
        """
        def main():
            for batch in loader:
                try:
                    model(batch).backward()
                except RuntimeError:
                    time.sleep(100)  # HERE
        """,
        CodeContext.EXCEPT_HANDLER,
    ),
    "handler with a test of the rank inside": (
        """
        def main():
            try:
                step()
            except RuntimeError:
                if dist.get_rank() == 0:
                    dist.barrier()  # HERE
        """,
        CodeContext.RANK_BRANCH,
    ),
    "finally is no handler": (
        """
        def main():
            try:
                step()
            except ValueError:
                pass
            finally:
                dist.barrier()  # HERE
        """,
        CodeContext.PLAIN,
    ),
    "gradients averaged inside the step": (
        """
        def main():
            for step in range(10):
                loss.backward()
                for p in grads:
                    dist.all_reduce(p)
                optimizer.step()  # HERE
        """,
        CodeContext.INSIDE_LOOP,
    ),
    "weights sent before training": (
        """
        def main():
            for p in model.parameters():
                dist.broadcast(p.data, 0)
            dist.barrier()  # HERE
            for batch in loader:
                model(batch).backward()
        """,
        CodeContext.PLAIN,
    ),
    "after the rounds of a loop of epochs that only communicates": (
        """
        def main():
            for epoch in range(3):
                for i in range(n):
                    dist.all_reduce(x)
                dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
    "module level": (
        """
        import torch
        for batch in loader:
            model(batch).backward()
        dist.barrier()  # HERE
        """,
        CodeContext.AFTER_LOOP,
    ),
}


@pytest.mark.parametrize("name", LOOP_CASES)
def test_loops_and_handlers(name: str) -> None:
    text, expected = LOOP_CASES[name]
    source, line = source_of(text)
    assert line_context(source, line).context is expected


def test_a_loader_under_any_name_is_followed() -> None:
    source, line = source_of(
        """
        def main():
            things = DataLoader(Data())
            for thing in enumerate(things):
                use(thing)  # HERE
        """
    )
    loop = line_context(source, line).loop
    assert loop is not None
    assert loop.iterates_data
    assert loop.over == "enumerate(things)"
