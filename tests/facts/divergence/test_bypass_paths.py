"""How a rank comes out of a loop before the others, other than by the end of its data."""

from __future__ import annotations

import textwrap

import pytest

from tests.facts.jobs import call, job, recording
from unhang.evidence.items import Frame, SourceFile
from unhang.facts.build import build_facts
from unhang.facts.divergence.bypass_paths import BypassPaths, paths_around_call
from unhang.facts.laggard.laggards import early_loop_exits
from unhang.findings import Source

WORLD = {"0": (0, 1, 2)}


def around(text: str) -> BypassPaths | None:
    """Rank 0 stands at the mark ``# PAST``, the others at ``# INSIDE``."""
    program = textwrap.dedent(text).lstrip("\n")
    lines = program.splitlines()
    past, inside = (next(n for n, row in enumerate(lines, 1) if mark in row) for mark in ("# PAST", "# INSIDE"))
    dumps = [
        recording(
            rank,
            [
                call(40, line=inside),
                call(41, "all_reduce" if rank else "barrier", state="scheduled", line=inside if rank else past),
            ],
            groups=WORLD,
        )
        for rank in range(3)
    ]
    evidence = job(*dumps)
    evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", program))
    (left,) = early_loop_exits(build_facts(evidence))
    return left.around


def program(body: str, over: str = "range(200)", before: str = "") -> str:
    counted = "step, x" if over.startswith("enumerate") else "step"
    lines = textwrap.indent(before, "    ") + f"    for {counted} in {over}:\n" + textwrap.indent(body, "        ")
    return f"def train():\n{lines}    dist.barrier()  # PAST\n"


REDUCE = "dist.all_reduce(loss)  # INSIDE\n"
SKIPS = "if not torch.isfinite(loss):\n    continue\n" + REDUCE
LEAVES = REDUCE + "if score.item() > best:\n    break\n"
CAUGHT = "try:\n    x = load(step)\n    dist.all_reduce(loss)  # INSIDE\nexcept ValueError:\n    print('bad')\n"
RAISED = CAUGHT.replace("print('bad')", "raise")
OF_ITS_DATA = "try:\n    x = next(data)\nexcept StopIteration:\n    x = again(data)\n" + REDUCE
EXITS = REDUCE + "if patience.over(score):\n    sys.exit(0)\n"
NESTED = REDUCE + "for word in words:\n    if word == loss:\n        break\n"


@pytest.mark.parametrize(
    ("body", "ways"),
    [
        (REDUCE, []),
        (SKIPS, [("continue", 3, False)]),
        (LEAVES, [("break", 5, True)]),
        (CAUGHT, [("except", 6, False)]),
        (RAISED, []),
        (OF_ITS_DATA, []),
        (EXITS, [("exit", 5, True)]),
        (NESTED, []),
        (SKIPS + "if score > best:\n    break\n", [("continue", 4, False), ("break", 7, True)]),
    ],
    ids=["none", "continue", "break", "handler", "handler-raises", "handler-of-data", "exit", "inner-break", "two"],
)
def test_what_leads_out_of_the_loop_or_around_its_calls(body: str, ways: list[tuple[str, int, bool]]) -> None:
    found = around(program(body))

    assert found is not None
    assert found.has_equal_rounds
    kinds = [(way.kind, way.leaves) for way in found.ways]
    assert kinds == [(kind, leaves) for kind, _, leaves in ways]


@pytest.mark.parametrize(
    "test",
    ["step >= 100", "step % args.save_every == 0", "step >= MAX_STEPS", "done >= limit_steps", "counted == 7"],
)
def test_what_is_decided_alike_on_all_ranks_is_no_way_of_its_own(test: str) -> None:
    body = f"counted += 1\nif {test}:\n    break\n" + REDUCE
    found = around(program(body, over="enumerate(loader)", before="counted = 0\nlimit_steps = 9\ndone = 3\n"))

    assert found is not None
    assert found.ways == ()
    assert not found.has_equal_rounds


def test_a_counter_that_counts_at_times_may_differ() -> None:
    body = "if loss > 1:\n    bad += 1\nif bad >= 3:\n    break\n" + REDUCE
    found = around(program(body, before="bad = 0\n"))

    assert found is not None
    assert [way.test for way in found.ways] == ["bad >= 3"]


def test_a_flag_that_a_collective_made_the_same_is_no_way_of_its_own() -> None:
    body = "stop = torch.tensor(bad >= 3)\ndist.all_reduce(stop)\nif stop.item():\n    break\n" + REDUCE
    found = around(program(body))

    assert found is not None
    assert found.ways == ()


@pytest.mark.parametrize("over", ["loader", "range(len(loader))", "iter(data)", "range(own)"])
def test_rounds_may_differ(over: str) -> None:
    found = around(program(REDUCE, over=over))

    assert found is not None
    assert not found.has_equal_rounds


@pytest.mark.parametrize("over", ["range(10)", "range(0, args.steps)", "tqdm(range(STEPS))", "range(rounds)"])
def test_rounds_are_the_same(over: str) -> None:
    found = around(program(REDUCE, over=over, before="rounds = 4 * 25\n"))

    assert found is not None
    assert found.has_equal_rounds


@pytest.mark.parametrize(
    ("test", "kinds", "over_data"),
    [
        ("time.time() - start < budget", ["while"], False),
        ("step < MAX_STEPS", [], True),
        ("True", [], True),
    ],
)
def test_a_loop_on_a_condition_of_its_own_ends_by_that(test: str, kinds: list[str], over_data: bool) -> None:
    text = program("step += 1\n" + REDUCE, over="loader", before="step = 0\n").replace(
        "for step in loader:", f"while {test}:"
    )
    found = around(text)

    assert found is not None
    assert ([way.kind for way in found.ways], found.over_data) == (kinds, over_data)


OF_NEXT = "x = next(rows, END)\nif x == END:\n    break\n" + REDUCE
OF_NOTHING = "x = take()\nif x is None:\n    break\n" + REDUCE
STOPPED = "try:\n    x = next(rows)\nexcept StopIteration:\n    break\n" + REDUCE


@pytest.mark.parametrize("body", [OF_NEXT, OF_NOTHING, STOPPED], ids=["next", "none", "stop-iteration"])
@pytest.mark.parametrize("header", ["for step in range(200):", "while True:"])
def test_a_jump_at_the_end_of_the_data_is_no_finding_of_its_own(body: str, header: str) -> None:
    found = around(program(body).replace("for step in range(200):", header))

    assert found is not None
    assert (found.jumps, found.over_data, found.has_equal_rounds) == ((), True, False)


@pytest.mark.parametrize("header", ["for step in range(200):", "while True:"])
def test_a_jump_on_a_metric_is_a_finding_of_its_own(header: str) -> None:
    found = around(program(LEAVES).replace("for step in range(200):", header))

    assert found is not None
    assert ([way.kind for way in found.jumps], found.over_data) == (["break"], False)


def test_a_loop_over_data_inside_the_one_that_was_left_leaves_both_open() -> None:
    epochs = "for x in loader:\n    dist.all_reduce(x)  # INSIDE\nif worse(score):\n    break\n"
    found = around(program(epochs))

    assert found is not None
    assert ([way.kind for way in found.jumps], found.over_data, found.last_over_data) == (["break"], True, False)


@pytest.mark.parametrize(
    ("test", "lines"), [("last > 1.8 * self.mean", [4]), ("state.global_step % 200 == 0", [])], ids=["loss", "step"]
)
def test_a_callback_asks_the_trainer_on_a_value_of_its_own(test: str, lines: list[int]) -> None:
    callback = f"""
class OnSpike(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if {test}:
            control.should_evaluate = True
"""
    sources = {"/job/train.py": SourceFile(Source("train.py"), "/job/train.py", callback)}

    ways = paths_around_call([Frame("Trainer.evaluate", "/lib/transformers/trainer.py", 2754)], sources)

    assert [(way.kind, way.where.line) for way in ways] == [("if", line) for line in lines]
