"""The number of the epoch for a sampler, where a loop over epochs reads its loader."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.patch.kinds import EPOCH
from tests.report.patch.patching import TRAIN, apply, look, only_of, summaries

pytestmark = pytest.mark.usefixtures("in_its_folder")

SHUFFLED_AGAIN = {
    "given_by_a_function": ("step(batch)", "step(batch); batch.sampler.set_epoch(epoch)"),
    "not_shuffled": ("DistributedSampler(data)", "DistributedSampler(data, shuffle=False)"),
    "shuffled_if_asked": ("DistributedSampler(data)", "DistributedSampler(data, shuffle=bool(step))"),
    "given_away": ("    for epoch", "    step(train_sampler)\n    for epoch"),
    "not_always_there": ("DistributedSampler(data)", "DistributedSampler(data) if step else None"),
    "one_pass": ("    for epoch in range(3):", "    while True:"),
    "no_loader": ("sampler=train_sampler", "num_workers=0"),
    "a_library_does_it": ("main([], print)", "Trainer(main)"),
    "a_helper_not_read": ("main([], print)", "from ours_that_is_not_here import main"),
    "in_two_loops": ("\n\nmain(", "    for again in range(2):\n        step(loader)\n\n\nmain("),
}


@pytest.mark.parametrize("kind", SHUFFLED_AGAIN)
def test_a_sampler_that_may_get_its_epoch_is_left_alone(kind: str, tmp_path: Path) -> None:
    before, after = SHUFFLED_AGAIN[kind]
    assert before in EPOCH.program
    (tmp_path / "train.py").write_text(EPOCH.program.replace(before, after))

    assert not any("set_epoch" in summary for summary in summaries(look(TRAIN)[0]))


def test_the_epoch_is_that_of_the_loop_that_reads_the_loader(tmp_path: Path) -> None:
    loops = "    for fold in range(2):\n        for epoch in tqdm(range(3)):\n            step(loader)\n"
    text = EPOCH.program[: EPOCH.program.index("    for epoch")]
    (tmp_path / "train.py").write_text(f"from tqdm import tqdm\n{text}{loops}\n\nmain([], print)\n")

    patch = only_of("set_epoch", TRAIN)

    assert "Safe to apply" in patch.text
    assert "+            train_sampler.set_epoch(epoch)\n             step(loader)" in patch.text


def test_of_two_samplers_read_in_one_loop_the_first_is_named(tmp_path: Path) -> None:
    second = "    other = DistributedSampler(data)\n    checked = DataLoader(data, sampler=other)\n"
    text = EPOCH.program.replace("    for epoch", f"{second}    for epoch").replace(
        "step(batch)\n", "step(batch)\n        step(checked)\n"
    )
    (tmp_path / "train.py").write_text(text)

    found = [summary for summary in summaries(look(TRAIN)[0]) if "set_epoch" in summary]

    assert len(found) == 1
    assert "train_sampler" in found[0]


def test_the_order_of_the_data_changes_after_it(tmp_path: Path) -> None:
    data = (
        "import torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\nfrom torch.utils.data.distributed import DistributedSampler\n\n"
        "sampler = DistributedSampler(range(64), num_replicas=2, rank=0)\n"
        "loader = DataLoader(range(64), sampler=sampler)\nseen = []\n"
        "for epoch in range(2):\n    seen.append([int(batch) for batch in loader])\n"
    )
    path = tmp_path / "train.py"
    path.write_text(data)

    apply(only_of("set_epoch", TRAIN), tmp_path)

    before, after = ({}, {})
    exec(data, before)
    exec(path.read_text(), after)
    assert before["seen"][0] == before["seen"][1]
    assert after["seen"][0] != after["seen"][1]
