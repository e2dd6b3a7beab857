"""Ranks part by what each has for itself: gradients, episodes, clocks, files that one rank writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.risks.program.ways_programs import HEAD, ask, of_cause, parted
from unhang.findings import Cause, Certainty

pytestmark = pytest.mark.usefixtures("in_its_folder")

NORM = (
    "def norm(grads, group):\n    grads = [one.detach() for one in grads]\n{leave}"
    "    total = torch.stack(grads).norm() if grads else torch.zeros(())\n    dist.all_reduce(total, group=group)\n"
    "def some(parameters):\n    return [p.grad for p in parameters if {test}]\nnorm(some(model.parameters()), group)\n"
)
LEAVES = "    if not grads:\n        return 0.0\n"
EPISODES = (
    "def rollout(env, policy):\n    obs, done, steps = env.reset(), False, 0\n    while {goes_on}:\n"
    "        action = policy(obs)\n        dist.all_reduce(action)\n"
    "        obs, reward, done, info = env.step(action)\n"
    "        steps += 1\nrollout(env, policy)\n"
)
IN_THE_BACKGROUND = (
    "class Saver:\n    def look(self, blocking):\n        if (fut := self._future) is not None:\n"
    "            if blocking or {asked}:\n                fut.result()\n                dist.barrier()\n"
    "                self._future = None\n    def save(self):\n        self._future = pool.submit(write)\n"
    "saver = Saver()\nfor step in range(9):\n    saver.look(False)\n    dist.all_reduce(x)\n    saver.save()\n"
)
FOR_A_TIME = "began = time.time()\nwhile {goes_on}:\n    dist.all_reduce(x)\n"


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (
            NORM.format(leave=LEAVES, test="p.grad is not None"),
            NORM.format(leave="", test="p.grad is not None"),
        ),
        (
            NORM.format(leave=LEAVES, test="p.grad is not None"),
            NORM.format(leave=LEAVES, test="p.requires_grad"),
        ),
        (EPISODES.format(goes_on="not done"), EPISODES.format(goes_on="steps < 500")),
        (EPISODES.format(goes_on="not all(done) and steps < 500"), EPISODES.format(goes_on="steps < 500")),
        (IN_THE_BACKGROUND.format(asked="fut.done()"), IN_THE_BACKGROUND.format(asked="step % 2 == 0")),
        (FOR_A_TIME.format(goes_on="time.time() - began < 60"), FOR_A_TIME.format(goes_on="step < 60")),
    ],
    ids=["gradients", "gradients asked for alike", "episode", "episodes", "background", "clock"],
)
def test_what_is_a_ranks_own_parts_it_from_the_others(bad: str, good: str, tmp_path: Path) -> None:
    (found,) = parted(ask(tmp_path, t=HEAD + bad))

    assert found.certainty is Certainty.POSSIBLE
    assert parted(ask(tmp_path, t=HEAD + good)) == []


STREAM = (
    "from torch.utils.data import DataLoader, IterableDataset\n"
    "class Rows({base}):\n    def __iter__(self):\n        yield 1\n"
    "class Loader(DataLoader):\n    pass\n"
    "def build():\n    rows = Rows()\n    return Loader(rows, batch_size=2)\n"
    "class Trainer:\n    def __init__(self):\n        self.rows = build()\n"
    "    def run(self):\n        for batch in self.rows:\n{stops}            dist.all_reduce(batch)\n"
    "Trainer().run()\n"
)


@pytest.mark.parametrize(
    ("base", "stops", "count"),
    [
        ("IterableDataset", "", 1),
        ("Dataset", "", 0),
        ("IterableDataset", "            if step > 9:\n                break\n", 0),
    ],
)
def test_a_loader_that_the_object_keeps(base: str, stops: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=HEAD + STREAM.format(base=base, stops=stops))

    assert len(of_cause(verdict, Cause.UNEVEN_DATA)) == count


VALIDATION = (
    "from torch.utils.data import DataLoader, IterableDataset\nfrom torch.distributed.fsdp import {wraps}\n"
    "class Rows(IterableDataset):\n    def __iter__(self):\n        yield 1\n"
    "class Spec:\n    wrap = {wraps}\n{wraps}(build())\n"
    "def validate(model_parts):\n    for batch in DataLoader(Rows()):\n        loss = model_parts[0](batch)\n"
    "validate(Spec().models)\n"
)


@pytest.mark.parametrize(("wraps", "count"), [("fully_shard", 1), ("register_fsdp_forward_method", 0)])
def test_a_model_that_was_not_followed_to_what_shards_it(wraps: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=HEAD + VALIDATION.format(wraps=wraps))

    assert len(of_cause(verdict, Cause.UNEVEN_DATA)) == count


RESUMED = (
    "STATE_FILE = 'state.pt'\ndef save(folder):\n{under}torch.save({{}}, folder / STATE_FILE)\n"
    "def load(folder):\n    path = folder / STATE_FILE\n    if path.exists():\n"
    "        dist.broadcast_object_list([torch.load(path)], src=0)\nload(folder)\nsave(folder)\n"
)


@pytest.mark.parametrize(("under", "count"), [("    if dist.get_rank() == 0:\n        ", 1), ("    ", 0)])
def test_a_file_that_one_rank_writes_and_every_rank_asks_for(under: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=HEAD + RESUMED.format(under=under)))) == count


ANSWERS = (
    "import deepspeed\n"
    "class Engine:\n    def __init__(self, args):\n        self.actor = self.build(args)\n"
    "    def build(self, args):\n        engine, *_ = deepspeed.initialize(model=net, config=args)\n"
    "        return engine\n"
    "class Trainer:\n    def __init__(self, engine):\n        self.engine = engine\n        self.actor = engine.actor\n"
    "    def answers(self, prompts):\n        return self.actor.module.generate(prompts{more})\n"
    "Trainer(Engine(args)).answers(prompts)\n"
)


@pytest.mark.parametrize(
    ("more", "options", "count"),
    [("", "--actor_zero_stage 3", 1), ("", "--actor_zero_stage 2", 0), (", synced_gpus=True", "--zero_stage 3", 0)],
)
def test_answers_of_different_length_from_spread_parameters(
    more: str, options: str, count: int, tmp_path: Path
) -> None:
    command = f"torchrun --nproc_per_node 2 t.py {options}"

    verdict = ask(tmp_path, command, t=HEAD + ANSWERS.format(more=more))

    assert len(of_cause(verdict, Cause.UNEVEN_DATA)) == count


UNWRAPPED = (
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    "class Engine:\n    def __init__(self):\n        self.actor = FSDP(net)\n"
    "def save(model):\n    inner = {inner}\n    return inner.state_dict()\n"
    "def main(engine):\n    if dist.get_rank() == 0:\n        save(engine.actor)\nmain(Engine())\n"
)


@pytest.mark.parametrize(("inner", "count"), [("model", 1), ("model.module if hasattr(model, 'module') else model", 0)])
def test_an_attribute_of_what_a_function_is_given(inner: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=HEAD + UNWRAPPED.format(inner=inner)))) == count


TURNS = (
    "from contextlib import contextmanager\n@contextmanager\ndef first_alone(rank):\n"
    "    if rank not in (-1, 0):\n        dist.barrier()\n    yield\n    if rank == 0:\n        dist.barrier()\n"
    "def load(path, rank=-1, sync=True):\n    with first_alone(rank):\n        rows = open(path)\n"
    "    if sync:\n        dist.all_reduce(rows)\n    return rows\n"
    "rank = dist.get_rank()\nif rank == 0:\n    rows = load('x', {given})\ndist.barrier()\n"
)


@pytest.mark.parametrize(
    ("given", "count"), [("sync=True", 1), ("sync=False", 0), ("-1, False", 0), ("rank, False", 1)]
)
def test_constants_that_a_call_hands_down_decide_there(given: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=HEAD + TURNS.format(given=given)))) == count


JOINED = (
    "from torch.utils.data import DataLoader, IterableDataset\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\nfrom contextlib import nullcontext\n"
    "class Rows(IterableDataset):\n    def __iter__(self):\n        yield 1\n"
    "def train(model, several):\n    if several:\n        around = {around}\n    else:\n        around = nullcontext\n"
    "    with around():\n        for batch in DataLoader(Rows()):\n            model(batch).backward()\n"
    "train(DDP(net), True)\n"
)


@pytest.mark.parametrize(("around", "count"), [("model.join", 0), ("nullcontext", 1)])
def test_ranks_that_ran_out_answer_for_the_others(around: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=HEAD + JOINED.format(around=around))

    assert len(of_cause(verdict, Cause.UNEVEN_DATA)) == count


STOPS = (
    "class State:\n    def __init__(self):\n        self.rank = dist.get_rank()\n        self.without = 0\n"
    "class Trainer:\n"
    "    def goes_on(self, state: State):\n        if state.without >= 3:\n            return False\n"
    "        return True\n"
    "    def better(self, state: State):\n{first}        state.without = 0\n"
    "    def train(self, state: State):\n        while self.goes_on(state):\n            state.without += 1\n"
    "            dist.all_reduce(x)\n            self.better(state)\nTrainer().train(State())\n"
)
LOGGED = (
    "def report(rows):\n    told = dict(loss=0.0)\n    if dist.get_rank() == 0:\n        {name} = measured(rows)\n"
    "    for name, value in told.items():\n        dist.all_reduce(value)\nreport(rows)\n"
)


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (STOPS.format(first="        if state.rank != 0:\n            return\n"), STOPS.format(first="")),
        (LOGGED.format(name="told"), LOGGED.format(name="shown")),
    ],
    ids=["a count that one rank sets back", "a table that one rank fills otherwise"],
)
def test_loops_of_what_only_some_ranks_set(bad: str, good: str, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=HEAD + bad))) == 1
    assert parted(ask(tmp_path, t=HEAD + good)) == []


SAVES = (
    "from accelerate import Accelerator\nfrom accelerate.utils import ProjectConfiguration\n{more}"
    "accelerator = Accelerator(project_config=ProjectConfiguration(automatic_checkpoint_naming={named}))\n"
    "def save(args):\n    main = accelerator.is_main_process\n    main_or_all = main or args.use_deepspeed\n"
    "    if {who}:\n        accelerator.save_state('x')\nsave(options)\n"
)
SHARDED = "from torch.distributed.fsdp import fully_shard\nfully_shard(net)\n"


@pytest.mark.parametrize(
    ("more", "named", "who", "certainty"),
    [
        ("", "False", "main", []),
        ("", "True", "main", [Certainty.LIKELY]),
        (SHARDED, "False", "main", [Certainty.LIKELY]),
        (SHARDED, "False", "main or args.use_deepspeed", [Certainty.POSSIBLE]),
        (SHARDED, "False", "main_or_all", [Certainty.POSSIBLE]),
    ],
    ids=["as in diffusers", "names folders", "sharded", "a setting may send all", "a name of both"],
)
def test_the_main_process_saves_the_state(
    more: str, named: str, who: str, certainty: list[Certainty], tmp_path: Path
) -> None:
    verdict = ask(tmp_path, t=HEAD + SAVES.format(more=more, named=named, who=who))

    assert [one.certainty for one in parted(verdict)] == certainty
