"""Where a whole stack stands in a program, and source that cannot be used or is not what ran."""

from __future__ import annotations

import pytest

from tests.facts.marked_source import source_of
from unhang.evidence.items import Frame, SourceFile
from unhang.facts.model import CodeContext
from unhang.facts.stacks.source_context import StackContext, is_rank_conditional, line_context, stack_context
from unhang.findings import Source
from unhang.program.rank_dependence.unseeded_splits import unseeded_splits_in_file
from unhang.program.syntax.syntax_tree import parse_file

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


def test_frames_without_source_tell_nothing() -> None:
    assert stack_context([Frame("main", "other.py", 3)], {}) == StackContext(CodeContext.NO_SOURCE)


def test_two_sources_with_one_ending_are_not_guessed_between() -> None:
    one, _ = source_of("x = 1\n", "/a/train.py")
    two, _ = source_of("x = 2\n", "/b/train.py")
    context = stack_context([Frame("<module>", "train.py", 1)], {"/a/train.py": one, "/b/train.py": two})
    assert context.context is CodeContext.NO_SOURCE


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
    assert line_context(source, 1).context is CodeContext.NO_SOURCE
    assert str(parse_file(text)).startswith("the source")
    assert is_rank_conditional(source, 1) is None
    assert unseeded_splits_in_file(source) == ()


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
    assert line_context(source, line, function=function).context is CodeContext.NO_SOURCE


@pytest.mark.parametrize("function", ["main", "Job.main", "wrap.<locals>.main", "<lambda>", "<listcomp>", ""])
def test_names_of_frames_are_understood(function: str) -> None:
    source, _ = source_of("class Job:\n    def main(self):\n        go()\n")
    assert line_context(source, 3, function=function).context is CodeContext.PLAIN


TRIES = """
def fetch(url):
    for attempt in range(1000):
        try:
            return read(url)
        except OSError as error:
            {handler}
"""


@pytest.mark.parametrize(
    "text",
    [
        TRIES.format(handler="time.sleep(1)  # HERE"),
        TRIES.format(handler="if attempt > 9:\n                time.sleep(9)  # HERE\n            log(error)"),
        "while not done:\n  try:\n    done = read()\n  except Exception:\n    wait()  # HERE\n    continue\n",
        "while 1:\n  try:\n    with read() as c:\n      c.send()\n      break\n  except OSError:\n    wait()  # HERE\n",
        "while 1:\n  try:\n    s = read(a)\n    s.send(x)\n  except OSError:\n    wait()  # HERE\n  else:\n    break\n",
    ],
    ids=["for", "nested", "while-at-module-level", "a-connection-sends", "leaves-in-else"],
)
def test_a_handler_in_a_loop_that_goes_on_repeats_work(text: str) -> None:
    source, line = source_of(text)
    context = line_context(source, line)
    assert context.context is CodeContext.INSIDE_LOOP
    assert context.tried_again is not None
    assert "read(" in source.text.splitlines()[context.tried_again.line - 1]


def test_what_is_retried_is_said_with_its_exception_and_its_pause() -> None:
    source, line = source_of(TRIES.format(handler="time.sleep(min(wait, 60))  # HERE"))
    tried = line_context(source, line).tried_again
    assert tried is not None
    assert (tried.tries, tried.caught, tried.pause) == ("read(…)", "OSError", "min(wait, 60)")


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    read()\nexcept OSError:\n    wait()  # HERE\n",
        TRIES.format(handler="clean()  # HERE\n            raise"),
        TRIES.format(handler="clean()  # HERE\n            break"),
        TRIES.format(handler="clean()  # HERE\n            return None"),
        "for x in loader:\n  try:\n    step(x).backward()\n  except RuntimeError:\n    dump()  # HERE\n",
        "for x in xs:\n    try:\n        dist.all_reduce(x)\n    except RuntimeError:\n        dump()  # HERE\n",
        "while 1:\n  try:\n    step(x).backward()\n    break\n  except RuntimeError:\n    dump()  # HERE\n",
    ],
    ids=["no-loop", "raises", "breaks", "returns", "training-step", "collective", "step-until-it-fits"],
)
def test_a_handler_that_ends_what_was_tried_is_one(text: str) -> None:
    source, line = source_of(text)
    context = line_context(source, line)
    assert context.context is CodeContext.EXCEPT_HANDLER
    assert context.tried_again is None


POLLS = {
    "busy": ("while not os.path.exists(path):  # HERE\n    pass", "os.path.exists(path)"),
    "sleeps": ("while process.poll() is None:\n    time.sleep(1)  # HERE", "process.poll() is None"),
    "leaves": ("while True:\n    if client.ready(key):\n        break\n    time.sleep(1)  # HERE", "client.ready(key)"),
    "counts": (
        "for attempt in range(900):\n    if flag.is_file():\n        return attempt\n    time.sleep(1)  # HERE",
        "flag.is_file()",
    ),
    "names the answer": (
        "while True:\n    state = api.state(job)\n    if state == 1:\n        break\n    n += 1\n    sleep(5)  # HERE",
        "api.state(job)",
    ),
}


@pytest.mark.parametrize("name", POLLS)
def test_a_loop_that_only_asks_and_waits_says_what_it_asks(name: str) -> None:
    body, asks = POLLS[name]
    source, line = source_of(f"def wait(path):\n    {body.replace(chr(10), chr(10) + '    ')}\n")
    polled = line_context(source, line).polled

    assert polled is not None
    assert polled.asks == asks


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("while not done():\n    step(batch)\n    time.sleep(1)  # HERE", id="it does something"),
        pytest.param("while error(x) > 1e-5:\n    x = improve(x)  # HERE", id="it comes closer"),
        pytest.param("while time.time() < end:\n    time.sleep(1)  # HERE", id="the clock ends it"),
        pytest.param(
            "for batch in loader:\n    if full(batch):\n        break\n    train(batch)  # HERE", id="it trains"
        ),
        pytest.param("for row in rows:\n    if fits(row):  # HERE\n        break", id="it searches"),
    ],
)
def test_a_loop_that_ends_by_what_it_does_polls_for_nothing(body: str) -> None:
    source, line = source_of(f"def work(x):\n    {body.replace(chr(10), chr(10) + '    ')}\n")

    assert line_context(source, line).polled is None
