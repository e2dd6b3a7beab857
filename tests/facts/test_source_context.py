"""Where a line stands in a program: loops, branches on the rank, handlers, and the look-alikes of each."""

from __future__ import annotations

import textwrap

import pytest

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.model import CodeContext
from unhang.facts.source_context import (
    StackContext,
    is_rank_conditional,
    line_context,
    stack_context,
)
from unhang.facts.unseeded_splits import split_without_seed
from unhang.findings import Source


def source_of(text: str, path: str = "train.py") -> tuple[SourceFile, int]:
    """The program and the line that carries the mark ``# HERE``."""
    program = textwrap.dedent(text).lstrip("\n")
    line = next((n for n, row in enumerate(program.splitlines(), 1) if "# HERE" in row), 0)
    return SourceFile(Source(path), path, program), line


def kind_at(text: str, *, loops: bool = False) -> str | None:
    source, line = source_of(text)
    branch = is_rank_conditional(source, line, loops=loops)
    return branch.kind if branch is not None else None


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


LOOK_ALIKES = {
    "world size": """
        def main():
            if dist.get_world_size() > 1:
                dist.barrier()  # HERE
        """,
    "is distributed, by local_rank": """
        def main(args):
            if args.local_rank != -1:
                dist.barrier()  # HERE
        """,
    "is distributed, by rank": """
        def main():
            rank = int(os.environ.get("RANK", -1))
            if rank >= 0:
                dist.barrier()  # HERE
        """,
    "is distributed, named": """
        ddp = int(os.environ.get("RANK", -1)) != -1
        if ddp:
            dist.barrier()  # HERE
        """,
    "is distributed, by None": """
        def main(rank=None):
            if rank is not None:
                dist.barrier()  # HERE
        """,
    "is distributed, by environment": """
        if "RANK" in os.environ:
            dist.barrier()  # HERE
        """,
    "after a branch that only prints": """
        def main():
            if dist.get_rank() == 0:
                print("hello")
            dist.barrier()  # HERE
        """,
    "before the branch": """
        def main():
            dist.barrier()  # HERE
            if dist.get_rank() == 0:
                return
        """,
    "in the test itself": """
        def main():
            if dist.all_gather_object(a, b) and step > 3:  # HERE
                pass
        """,
    "rank of a matrix": """
        def main(x):
            rank = torch.linalg.matrix_rank(x)
            if rank > 3:
                dist.barrier()  # HERE
        """,
    "rank of an adapter": """
        def main(args):
            rank = args.lora_rank
            if rank > 8:
                dist.barrier()  # HERE
        """,
    "rank in a ranking": """
        def main(items):
            for rank, item in enumerate(items):
                if rank == 0:
                    dist.barrier()  # HERE
        """,
    "loop over all ranks": """
        def main():
            for r in range(dist.get_world_size()):
                if r > 0:
                    dist.barrier()  # HERE
        """,
    "device of the rank": """
        def main():
            model = DDP(model, device_ids=[dist.get_rank()])
            if model.training:
                dist.barrier()  # HERE
        """,
    "first process goes first": """
        def main():
            with accelerator.main_process_first():
                data = load()  # HERE
        """,
    "step": """
        def main():
            for step in range(100):
                if step % 10 == 0:
                    dist.barrier()  # HERE
        """,
    "return in an inner function": """
        def main():
            def show():
                if dist.get_rank() != 0:
                    return
                print("x")
            show()
            dist.barrier()  # HERE
        """,
    "continue of an inner loop": """
        def main():
            for epoch in range(3):
                for i in range(5):
                    if dist.get_rank() == 0:
                        continue
                    print(i)
                dist.barrier()  # HERE
        """,
    "print in a ternary": """
        def main():
            name = "a" if dist.get_rank() == 0 else "b"; dist.barrier()  # HERE
        """,
    "other branch of a nested if": """
        def main():
            if step:
                if dist.get_rank() == 0:
                    print("x")
                dist.barrier()  # HERE
        """,
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_is_not_a_branch_on_the_rank(name: str) -> None:
    assert kind_at(LOOK_ALIKES[name]) is None


def test_a_name_alone_is_told_apart_from_a_rank_that_was_followed() -> None:
    by_name, line = source_of("def f(rank):\n    if rank == 0:\n        dist.barrier()  # HERE\n")
    followed, line_2 = source_of("def f():\n    r = dist.get_rank()\n    if r == 0:\n        dist.barrier()  # HERE\n")
    first, second = is_rank_conditional(by_name, line), is_rank_conditional(followed, line_2)
    assert first is not None
    assert not first.sure
    assert second is not None
    assert second.sure
    assert (second.line, second.test) == (3, "r == 0")


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
    assert context.loop is not None
    assert context.loop.depends_on_rank


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
    context = line_context(source, line)
    assert context.loop is not None
    assert context.loop.depends_on_rank
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


# ---------------------------------------------------------------------------------------------------
# whole stacks

LIBRARY = """
def reduce_all(x):
    for part in x:
        dist.all_reduce(part)  # HERE
"""
MAIN = """
from metrics import reduce_all
def evaluate(model, loader):
    for batch in loader:
        model(batch)
    reduce_all([1, 2])
def main():
    for batch in train_loader:
        model(batch).backward()
    if dist.get_rank() == 0:
        evaluate(model, loader)
main()
"""


def frames_and_sources() -> tuple[list[Frame], dict[str, SourceFile]]:
    library, line = source_of(LIBRARY, "metrics.py")
    main, _ = source_of(MAIN, "/home/user/job/train.py")
    frames = [
        Frame("all_reduce", "torch/distributed/distributed_c10d.py", 10),
        Frame("reduce_all", "metrics.py", line),
        Frame("evaluate", "train.py", 5),
        Frame("main", "train.py", 10),
        Frame("<module>", "train.py", 11),
    ]
    return frames, {"metrics.py": library, "/home/user/job/train.py": main}


def test_a_branch_in_a_caller_goes_before_the_loops_inside() -> None:
    frames, sources = frames_and_sources()
    context = stack_context(frames[1:], sources)
    assert context.context is CodeContext.RANK_BRANCH
    assert context.where is not None
    assert (context.where.file, context.where.line) == ("train.py", 10)
    assert context.branch is not None
    assert context.branch.line == 9


def test_a_stack_past_the_training_loop_in_a_caller_is_after_it() -> None:
    source, _ = source_of(
        """
        def save(model):
            torch.save(model, "x")
        def main():
            for batch in loader:
                model(batch).backward()
            save(model)
        main()
        """
    )
    frames = [Frame("save", "train.py", 2), Frame("main", "train.py", 6), Frame("<module>", "train.py", 7)]
    context = stack_context(frames, {"train.py": source})
    assert context.context is CodeContext.AFTER_LOOP
    assert context.after is not None
    assert context.after.line == 4


def test_frames_without_source_leave_a_reason() -> None:
    context = stack_context([Frame("main", "other.py", 3)], {})
    assert context == StackContext(
        CodeContext.NO_SOURCE, reason="no source of other.py is among the evidence", whole=False
    )


def test_two_sources_with_one_ending_are_not_guessed_between() -> None:
    one, _ = source_of("x = 1\n", "/a/train.py")
    two, _ = source_of("x = 2\n", "/b/train.py")
    assert stack_context([Frame("<module>", "train.py", 1)], {"/a/train.py": one, "/b/train.py": two}).reason


# ---------------------------------------------------------------------------------------------------
# bad source


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n    pass\n",
        "x = " + "(" * 5000 + ")" * 5000 + "\n",
        "x = " + "-" * 50000 + "1\n",
        "x = " + "+".join(["1"] * 200_000) + "\n",
        "x = 1\0\n",
        "if x:\n" + "".join(" " * n + "if x:\n" for n in range(1, 120)) + " " * 120 + "pass\n",
        "# " + "x" * 3_000_000 + "\nx = 1\n",
    ],
    ids=["syntax", "parentheses", "signs", "sum", "nul", "indents", "large"],
)
def test_source_that_cannot_be_used_says_why(text: str) -> None:
    source = SourceFile(Source("train.py"), "train.py", text)
    context = line_context(source, 1)
    assert context.context is CodeContext.NO_SOURCE
    assert context.reason.startswith("train.py: the source")
    assert is_rank_conditional(source, 1) is None
    assert split_without_seed(source) == ()


def test_deeply_nested_source_that_parses_does_not_crash() -> None:
    nested = "x = " + "[" * 90 + "]" * 90 + "\n" + "if dist.get_rank():\n" + "x = f" + "(g" * 90 + ")" * 90 + "\n"
    text = nested.replace("\nx = f", "\n  x = f")
    assert line_context(SourceFile(Source("t.py"), "t.py", text), 3).context is CodeContext.RANK_BRANCH
    chain = "x = a" + ".b()" * 400 + "\n"
    assert line_context(SourceFile(Source("t.py"), "t.py", chain), 1).context is CodeContext.PLAIN


@pytest.mark.parametrize(
    ("line", "function"),
    [(99, "main"), (0, "main"), (1, "main"), (4, "main"), (2, "<module>")],
    ids=["past the end", "before the start", "outside", "in another function", "in a function"],
)
def test_source_that_is_not_what_ran_is_noticed(line: int, function: str) -> None:
    source, _ = source_of("def main():\n    pass\ndef other():\n    pass\n")
    context = line_context(source, line, function=function)
    assert context.context is CodeContext.NO_SOURCE
    assert "not the version that ran" in context.reason


@pytest.mark.parametrize("function", ["main", "Job.main", "wrap.<locals>.main", "<lambda>", "<listcomp>", ""])
def test_names_of_frames_are_understood(function: str) -> None:
    source, _ = source_of("class Job:\n    def main(self):\n        go()\n")
    assert line_context(source, 3, function=function).context is CodeContext.PLAIN


# ---------------------------------------------------------------------------------------------------
# splits without a seed


def splits(text: str) -> list[tuple[int, str, str]]:
    source, _ = source_of(text)
    return [(found.line, found.call, found.why) for found in split_without_seed(source)]


@pytest.mark.parametrize(
    "call",
    [
        "random_split(data, [80, 20])",
        "torch.utils.data.random_split(data, [80, 20])",
        "train_test_split(rows)",
        "rows.train_test_split(test_size=0.1)",
        "random.shuffle(rows)",
        "np.random.permutation(10)",
        "torch.randperm(10)",
        "random.sample(rows, 5)",
        "data.shuffle()",
        "DataLoader(data, shuffle=True)",
    ],
)
def test_a_split_without_a_seed_is_found(call: str) -> None:
    assert splits(f"def main():\n    x = {call}\n") == [(2, call.partition("(")[0], "no-seed")]


@pytest.mark.parametrize(
    "text",
    [
        "torch.manual_seed(0)\na = random_split(data, [80, 20])\n",
        "a = random_split(data, [80, 20], generator=torch.Generator().manual_seed(0))\n",
        "a = train_test_split(rows, random_state=1)\n",
        "a = rows.train_test_split(seed=1)\n",
        "a = train_test_split(rows, shuffle=False)\n",
        "a = data.shuffle(seed=42)\n",
        "set_seed(args.seed)\nrandom.shuffle(rows)\n",
        "a = DataLoader(data, sampler=DistributedSampler(data))\n",
        "a = DataLoader(data)\n",
        "shuffle(deck)\n",
        "a = sample(model)\n",
    ],
)
def test_a_split_with_a_seed_or_no_split_is_left_alone(text: str) -> None:
    assert splits(text) == []


def test_a_seed_that_differs_by_rank_is_found() -> None:
    assert splits("torch.manual_seed(7 + dist.get_rank())\na, b = random_split(data, [1, 2])\n") == [
        (2, "random_split", "seed-differs")
    ]
    assert splits("g = train_test_split(rows, random_state=dist.get_rank())\n") == [
        (1, "train_test_split", "seed-differs")
    ]
    assert splits("a = random_split(d, n, generator=torch.Generator().manual_seed(0))\nb = torch.randperm(3)\n") == [
        (2, "torch.randperm", "no-seed")
    ]
