"""Work that one rank does in the training loop while the others wait, over several files; and what resembles it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_checks import ALL_CHECKS, look_around
from unhang.check.judge import judge
from unhang.findings import Cause, Finding, Severity, Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import Plan

CHECK = [check for check in ALL_CHECKS if check.name == "program"]
RANKS = "def is_master(args):\n    return args.rank == 0\ndef start(args):\n    args.rank = int(os.environ['RANK'])\n"
TRAIN = (
    "from torch.nn.parallel import DistributedDataParallel\nfrom ranks import is_master\n"
    "def train_one_epoch(model, loader):\n    for batch in loader:\n        loss = model(batch)\n"
    "        loss.backward()\n"
    "def evaluate(model, val_loader, args):\n{guard}    for batch in val_loader:\n        model(batch)\n"
)
GUARD = "    if not is_master(args):\n        return {}\n"
MAIN = (
    "from train import train_one_epoch, evaluate\nfrom ranks import is_master, start\n"
    "def main(args):\n    start(args)\n    for epoch in range(args.epochs):\n"
    "        train_one_epoch(model, loader)\n        {call}\nmain(parse())\n"
)
EVALUATE = "evaluate(model, val, args)"


def ask(folder: Path, command: str = "torchrun --nproc_per_node 2 t.py", **files: str) -> Verdict:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    situation, gaps = look_around(Machine(environment={"PATH": "/none"}), Plan(tuple(command.split())), CHECK)
    return judge([situation], ["program"], gaps)


def alone(verdict: Verdict) -> list[Finding]:
    return [one for one in verdict.findings if one.cause is Cause.SINGLE_RANK_WORK]


pytestmark = pytest.mark.usefixtures("in_its_folder")


@pytest.mark.parametrize(
    ("guard", "call"),
    [
        (GUARD, EVALUATE),
        ("", f"if is_master(args): {EVALUATE}"),
        ("", f"if args.rank == 0: {EVALUATE}"),
        ("", f"args.logs = is_master(args)\n        if args.logs: {EVALUATE}"),
    ],
)
def test_evaluation_on_one_rank_with_the_place_where_the_others_wait(guard: str, call: str, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=MAIN.format(call=call), train=TRAIN.format(guard=guard), ranks=RANKS)

    (found,) = alone(verdict)
    loop = 10 if guard else 8
    assert found.severity is Severity.SLOWS
    assert found.where is not None
    assert (found.where.file, found.where.line) == ("train.py", loop)
    assert "train.py:6" in str(found.summary)  # loss.backward()
    assert "600" in str(found.summary)  # the limit in force


@pytest.mark.parametrize(
    ("guard", "call"),
    [
        ("", EVALUATE),  # all ranks evaluate
        ("", "pass"),  # nobody does
        ("    if not args.rows:\n        return {}\n", EVALUATE),  # no branch on the rank
        ("    if is_master(args):\n        if args.broken:\n            return {}\n", EVALUATE),  # an error's end
        (GUARD, f"pass\n    {EVALUATE}"),  # once, after the loop
    ],
)
def test_what_resembles_it(guard: str, call: str, tmp_path: Path) -> None:
    assert alone(ask(tmp_path, t=MAIN.format(call=call), train=TRAIN.format(guard=guard), ranks=RANKS)) == []


LOGGERS = (
    "import torch.distributed as dist\nfrom torch.utils.tensorboard import SummaryWriter\n"
    "class Nothing:\n    def log(self, values, step):\n        pass\n"
    "class Board(Nothing):\n    def __init__(self, folder):\n        self.writer = SummaryWriter(folder)\n"
    "    def log(self, values, step):\n        for key, value in values.items():\n"
    "            self.writer.add_scalar(key, value, step)\n"
    "def build(folder):\n{guard}    return Board(folder)\n"
    "class Metrics:\n    def __init__(self, folder):\n        self.logger = build(folder)\n"
    "    def log(self, step):\n        self.logger.log({{'loss': 1.0}}, step)\n"
)
LOGS = (
    "from torch.distributed.fsdp import fully_shard\nfrom loggers import Metrics\n"
    "class Trainer:\n    def __init__(self):\n        self.metrics = Metrics('runs')\n"
    "    def train(self):\n        for step in range(10):\n            loss = model(step)\n"
    "            loss.backward()\n            self.metrics.log(step)\nTrainer().train()\n"
)


def test_a_logger_that_is_built_on_one_rank_only(tmp_path: Path) -> None:
    guard = "    if dist.get_rank() != 0:\n        return Nothing()\n"
    (found,) = alone(ask(tmp_path, t=LOGS, loggers=LOGGERS.format(guard=guard)))

    assert found.severity is Severity.NOTE
    assert found.where is not None
    assert (found.where.file, found.where.line) == ("loggers.py", 11)
    assert "t.py:9" in str(found.summary)


def test_a_logger_that_all_ranks_build(tmp_path: Path) -> None:
    assert alone(ask(tmp_path, t=LOGS, loggers=LOGGERS.format(guard=""))) == []


LOADERS = (
    "def by_rows(data):\n    return data.train_test_split(0.1)\n"
    "def by_name(data):\n    return data.train_test_split(0.2)\n"
)


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("import loaders\nloaders.by_rows(data)\n", [2]),
        ("import loaders\nmake = loaders.by_rows\n", [2]),  # handed on
        ("import loaders\ncall('by_name')\n", [4]),  # by its name
        ("import loaders\ngetattr(loaders, name)(data)\n", [2, 4]),  # only running tells
        ("import loaders\nprint(getattr(args, name))\n", []),
        ("from loaders import by_rows as rows\nrows(data)\n", [2]),
    ],
)
def test_functions_that_the_launch_never_reaches(script: str, lines: list[int], tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=script, loaders=LOADERS)

    assert [one.where.line for one in verdict.findings if one.where is not None] == lines


def test_a_parameter_that_every_call_gives_the_same_setting(tmp_path: Path) -> None:
    script = (
        "import argparse\nfrom loaders import by_rows, by_name\np = argparse.ArgumentParser()\n"
        "p.add_argument('--kind', default='rows')\nargs = p.parse_args()\n"
        "def pick(kind):\n    if kind == 'name':\n        return by_name\n    return by_rows\npick(args.kind)(data)\n"
    )
    by_default = ask(tmp_path, t=script, loaders=LOADERS)
    other = ask(tmp_path, "torchrun t.py --kind name", t=script, loaders=LOADERS)
    both = ask(tmp_path, t=script + "pick('name')\n", loaders=LOADERS)

    assert [one.subject for one in by_default.findings] == ["loaders.py:2"]
    assert [one.subject for one in other.findings] == ["loaders.py:4"]
    assert len(both.findings) == 2


RULE = (
    "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\n"
    "@dataclass\nclass Args:\n    num_generations: int = 8\n    per_device_train_batch_size: int = 1\n"
    "args, = HfArgumentParser((Args,)).parse_args_into_dataclasses()\n"
    "def check(self, args):\n    ranks = self.accelerator.num_processes\n"
    "    whole = args.per_device_train_batch_size * ranks\n"
    "    fits = [n for n in range(2, whole + 1) if whole % n == 0]\n"
    "    if self.num_generations not in fits:\n        raise ValueError('no')\n"
)


@pytest.mark.parametrize(
    ("command", "stops"),
    [
        ("--nproc_per_node 8 t.py", False),
        ("--nproc_per_node 6 t.py", True),
        ("--nproc_per_node 8 t.py --num_generations 6", True),
        ("--nproc_per_node 6 t.py --num_generations 3 --gradient_accumulation_steps 5", False),
    ],
)
def test_the_programs_own_rule_with_the_values_of_the_launch(command: str, stops: bool, tmp_path: Path) -> None:
    verdict = ask(tmp_path, f"torchrun {command}", t=RULE)

    assert [one.subject for one in verdict.findings] == (["t.py:12"] if stops else [])
    said = [str(one.what) for one in verdict.checked] if not stops else [str(verdict.findings[0].because)]
    assert any("whole = args.per_device_train_batch_size * ranks" in text for text in said)


def test_a_rule_whose_values_are_not_known_says_nothing(tmp_path: Path) -> None:
    assert ask(tmp_path, "torchrun t.py", t=RULE).findings == ()


TURNSTILE = (
    "from transformers import TrainingArguments\ndef main(args):\n"
    "    with args.main_process_first():\n        args.open()\nmain(1)\n"
)


@pytest.mark.parametrize(("cards", "named"), [("6,7,8,9", True), ("0,1", False), ("", False)])
def test_cards_by_number_before_a_barrier_without_a_device(cards: str, named: bool, tmp_path: Path) -> None:
    set_cards = f"env CUDA_VISIBLE_DEVICES={cards} " if cards else ""
    findings = ask(tmp_path, f"{set_cards}torchrun t.py", t=TURNSTILE).findings

    assert [(one.cause, one.severity, one.subject) for one in findings] == (
        [(Cause.DEVICE_MAPPING, Severity.NOTE, "t.py:3")] if named else []
    )
    if named:
        commands = " ".join(str(remedy.change) for remedy in findings[0].remedies)
        assert "unhang bisect" in commands
        assert "unhang check --only probe" in commands
