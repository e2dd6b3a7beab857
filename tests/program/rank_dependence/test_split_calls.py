"""A split that every rank draws for itself is found by its call; one with a seed is left alone."""

from __future__ import annotations

import pytest

from tests.facts.marked_source import source_of
from unhang.program.rank_dependence.unseeded_splits import split_without_seed


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
