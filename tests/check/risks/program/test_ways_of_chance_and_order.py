"""Ranks part by the order of a set, by random numbers, and by what only a library makes collective."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.risks.program.ways_programs import HEAD, ask, of_cause, parted
from unhang.findings import Cause, Certainty

pytestmark = pytest.mark.usefixtures("in_its_folder")

STATE = (
    HEAD + "class State:\n    def __init__(self):\n        self.names = {start}\n    def add(self, name):\n"
    "        self.names.add(name)\n    def gather(self):\n        {loop}\n            self.one(name)\n"
    "    def one(self, name):\n        dist.all_reduce(getattr(self, name))\nState().gather()\n"
)


@pytest.mark.parametrize(
    ("start", "loop", "count"),
    [
        ("set()", "for name in self.names:", 1),
        ("set()", "for name in list(self.names):", 1),
        ("set()", "for name in sorted(self.names):", 0),
        ("dict()", "for name in self.names:", 0),
        ("set(range(4))", "for name in self.names:", 0),
        ("frozenset(other.keys())", "for at, name in enumerate(self.names):", 1),
    ],
)
def test_collectives_in_the_order_of_a_set(start: str, loop: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=STATE.format(start=start, loop=loop))

    assert len(of_cause(verdict, Cause.COLLECTIVE_MISMATCH)) == count


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (
            "all = []\nfor name in set(names):\n    all.append(name)\nfor one in all:\n    dist.broadcast(one, 0)\n",
            1,
        ),
        ("found = list(set(names))\nfound.sort()\nfor one in found:\n    dist.broadcast(one, 0)\n", 0),
        ("[dist.broadcast(one, 0) for one in a.keys() & b.keys()]\n", 1),
        ("for one in set(names):\n    dist.barrier()\n", 0),
        ("def send(every):\n    for one in every:\n        dist.broadcast(one, 0)\nsend(list(set(names)))\n", 1),
    ],
)
def test_what_keeps_the_order_of_a_set(lines: str, count: int, tmp_path: Path) -> None:
    assert len(of_cause(ask(tmp_path, t=HEAD + lines), Cause.COLLECTIVE_MISMATCH)) == count


DRAWS = "import random, numpy as np\n" + HEAD


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("if random.random() < 0.1:\n    dist.all_reduce(x)\n", 1),
        ("skip = np.random.rand() < 0.1\nif not skip:\n    dist.all_reduce(x)\n", 1),
        ("if torch.rand(1).item() < 0.1:\n    dist.all_reduce(x)\n", 1),
        ("random.seed(3)\nif random.random() < 0.1:\n    dist.all_reduce(x)\n", 0),
        ("random.seed(dist.get_rank())\nif random.random() < 0.1:\n    dist.all_reduce(x)\n", 1),
        ("if random.random() < 0.1:\n    print(1)\ndist.all_reduce(x)\n", 0),
    ],
)
def test_a_collective_that_a_random_number_decides(lines: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=DRAWS + lines))) == count


METRICS = (
    "import lightning as L\nclass Model(L.LightningModule):\n    def training_step(self, batch, at):\n"
    "        self.log('loss', 1{how})\nclass Writes(L.Callback):\n"
    "    def on_validation_epoch_end(self, trainer, module):\n        {test}\n"
    "            print(trainer.callback_metrics)\nL.Trainer(callbacks=[Writes()]).fit(Model())\n"
)


@pytest.mark.parametrize(
    ("how", "test", "count"),
    [
        (", sync_dist=True", "if trainer.is_global_zero:", 1),
        (", sync_dist=False", "if trainer.is_global_zero:", 0),
        (", sync_dist=True", "for _ in range(1):", 0),
    ],
)
def test_what_is_collective_where_it_is_read(how: str, test: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=METRICS.format(how=how, test=test)))) == count


@pytest.mark.parametrize(
    ("test", "count"), [("if one.grad is not None:", 1), ("if one.requires_grad is not None:", 0), ("if True:", 0)]
)
def test_gradients_that_only_some_ranks_have(test: str, count: int, tmp_path: Path) -> None:
    program = HEAD + f"for one in model.parameters():\n    {test}\n        dist.all_reduce(one.grad)\n"

    assert len(parted(ask(tmp_path, t=program))) == count


MEMBERS = (
    "from ranks import first, together\nclass Loss:\n    def get(self):\n        return 1\nclass Mean:\n"
    "    def __init__(self):\n        self._distributed = True\n"
    "    def get(self):\n        if self._distributed:\n            together()\nclass All:\n    def __init__(self):\n"
    "        self.parts = [Loss()]\n        {more}\n    def every(self):\n        for part in self.parts:\n"
    "            if hasattr(part, 'get'):\n                part.get()\nmean = All()\nif first():\n    mean.every()\n"
)
RANKS = (
    "import torch.distributed as dist\ndef first():\n    return dist.get_rank() == 0\n"
    "def together():\n    dist.barrier()\n"
)


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ("self.parts += [Mean()]", 1),
        ("self.parts.extend([Mean()])", 1),
        ("self.parts.insert(0, Mean())", 1),
        ("self.parts += [Loss()]", 0),
    ],
)
def test_a_member_that_is_put_into_a_list_later(more: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=MEMBERS.format(more=more), ranks=RANKS))) == count


FILLS = HEAD + "def fill():\n    found = {}\n    if {test}:\n        found['loss'] = 1\n    return found\n"


@pytest.mark.parametrize(
    ("test", "lines", "count"),
    [
        # another key on some ranks: another number of rounds
        ("dist.get_rank() == 0", "for key in fill():\n    dist.all_reduce(key)\n", 1),
        ("x[mask.bool()].sum() > 0", "for key, value in fill().items():\n    dist.all_reduce(value)\n", 1),
        ("flag", "for key in fill():\n    dist.all_reduce(key)\n", 0),
        # nothing there on some ranks
        (
            "dist.get_rank() == 3",
            (
                "def whiten(all):\n    if all.get('loss') is None:\n        return\n    dist.all_reduce(x)\n"
                "all = {}\nall.update(fill())\nwhiten(all)\n"
            ),
            1,
        ),
        ("dist.get_rank() == 3", "found = fill()\nif found:\n    dist.all_reduce(x)\n", 1),
        ("dist.get_rank() == 3", "found = fill()\nif 'loss' in found:\n    dist.all_reduce(x)\n", 1),
        ("dist.get_rank() == 3", "found = fill()\nfound['x'].item()\ndist.all_reduce(found['x'])\n", 0),
        ("dist.get_rank() == 3", "found = [fill()]\nfor one in found:\n    dist.all_reduce(one)\n", 0),
    ],
)
def test_a_container_with_more_in_it_on_some_ranks(test: str, lines: str, count: int, tmp_path: Path) -> None:
    assert len(parted(ask(tmp_path, t=FILLS.replace("{test}", test) + lines))) == count


SEEDED = (
    "import random, torch\nimport torch.distributed as dist\n{seeds}def main(data):\n    {first}\n"
    "    return torch.utils.data.random_split(data, [8, 2])\nmain(rows)\n"
)


@pytest.mark.parametrize(
    ("seeds", "first", "certainties"),
    [
        ("", "torch.manual_seed(dist.get_rank())", [Certainty.LIKELY]),
        ("def seed():\n    torch.manual_seed(dist.get_rank())\n", "seed()", [Certainty.POSSIBLE]),
        # nobody calls it: the split has no seed at all
        ("def seed():\n    torch.manual_seed(dist.get_rank())\n", "pass", [Certainty.LIKELY]),
        ("def seed():\n    torch.manual_seed(3)\n", "seed()", []),
    ],
)
def test_a_split_whose_generator_is_seeded_elsewhere(
    seeds: str, first: str, certainties: list[Certainty], tmp_path: Path
) -> None:
    found = of_cause(ask(tmp_path, t=SEEDED.format(seeds=seeds, first=first)), Cause.UNEVEN_DATA)

    assert [one.certainty for one in found] == certainties


TOWER = (
    "import torch\nfrom torch import nn\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.tower = nn.Linear(1, 1)\n"
    "        self.drop = nn.Dropout()\n    def forward(self, ids, pixel_values=None):\n{lines}        return ids\n"
    "model = DDP(Net(){how})\nfor batch in loader:\n    model(**batch)\n"
)


@pytest.mark.parametrize(
    ("lines", "how", "count"),
    [
        ("        if pixel_values is not None:\n            ids = self.tower(pixel_values)\n", "", 1),
        ("        if len(pixel_values) == 0:\n            return ids\n        ids = self.tower(pixel_values)\n", "", 1),
        (
            (
                "        if pixel_values is not None:\n            ids = self.tower(pixel_values)\n        else:\n"
                "            ids = self.tower(ids) * 0\n"
            ),
            "",
            0,
        ),
        ("        if pixel_values is not None:\n            ids = self.drop(pixel_values)\n", "", 0),
        ("        if self.training:\n            ids = self.tower(pixel_values)\n", "", 0),
        (
            "        if pixel_values is not None:\n            ids = self.tower(pixel_values)\n",
            ", find_unused_parameters=True",
            0,
        ),
    ],
)
def test_a_part_of_the_model_that_only_some_batches_use(lines: str, how: str, count: int, tmp_path: Path) -> None:
    verdict = ask(tmp_path, t=TOWER.format(lines=lines, how=how))

    assert len([one for one in parted(verdict) if "left out" in str(one.summary)]) == count


def test_where_the_set_was_handed_over_is_told(tmp_path: Path) -> None:
    program = (
        HEAD + "def send(every):\n    for one in every:\n        dist.broadcast(one, 0)\ndef all(names):\n"
        "    send(list(set(names)))\nall(rows)\n"
    )

    (found,) = of_cause(ask(tmp_path, t=program), Cause.COLLECTIVE_MISMATCH)

    assert "list(set(names)) (t.py:6)" in " ".join(map(str, found.because))
