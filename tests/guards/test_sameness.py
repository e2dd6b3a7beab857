"""same_on_all_ranks lets equal values pass, and names who differs and where first."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.guards.ranks import run_ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.job


@dataclasses.dataclass
class Settings:
    lr: float = 0.1
    rank: int = 0
    layers: tuple[int, ...] = (1, 2)


def _equal_values(rank: int) -> dict[str, Any]:
    import numpy as np
    import torch
    from torch.utils import data

    class Rows(data.Dataset[Any]):
        def __len__(self) -> int:
            return 5000

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"x": torch.rand(3) + index, "y": np.random.rand(), "z": random.random()}

    class NeverTheSame(Rows):
        def __getitem__(self, index: int) -> Any:
            return object.__new__(type("Row", (), {"__repr__": lambda self: str(random.SystemRandom().random())}))

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    torch.manual_seed(rank)  # augmentations draw from states that differ
    random.seed(rank)
    words = ["a", "b", "c", "d"]
    return {
        "dict": dict.fromkeys(random.sample(words, 4), 1),
        "set": set(random.sample(words, 4)),
        "long": list(range(300_000)),
        "texts": [f"row {n}" for n in range(5000)],
        "dataclass": Settings(rank=rank),
        "namespace": argparse.Namespace(
            local_rank=rank, rank=0, where=f"cuda:{rank}", lr=float("nan"), device=torch.device("cuda", rank)
        ),
        "array": np.arange(100_000).reshape(100, 1000),
        "tensor": torch.arange(2_000_000, dtype=torch.bfloat16),
        "number": torch.tensor(3.5),
        "empty": [torch.zeros(0), [], {}, np.zeros((0, 3))],
        "module": model,
        "optimizer": torch.optim.AdamW(model.parameters()),
        "subset": data.Subset(Rows(), range(0, 5000, 2)),
        "rows": Rows(),
        "never the same": NeverTheSame(),
        "tensors": data.TensorDataset(torch.ones(4, 2), torch.zeros(4)),
        "loader": data.DataLoader(data.TensorDataset(torch.ones(4, 2)), batch_size=2),
        "generator": torch.Generator().manual_seed(3),
        "python generator": random.Random(3),
        "numpy generator": np.random.default_rng(3),
        "function": _equal_values,
        "none": None,
    }


def _compare_equal(rank: int) -> list[str]:
    import torch

    import unhang

    values = _equal_values(rank)
    before = random.getstate(), torch.get_rng_state().tolist()
    for name, value in values.items():
        unhang.same_on_all_ranks(value, name)
    assert (random.getstate(), torch.get_rng_state().tolist()) == before, "random states were moved"
    return list(values)


def test_equal_values_pass_whatever_they_are() -> None:
    for outcome in run_ranks(_compare_equal, world_size=2):
        assert len(outcome.get()) == 22


class Own:
    """A data set that derives from nothing."""

    def __init__(self, odd: bool) -> None:
        self._more = {"odd": [object()] if odd else []}

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"x": index + (1 if index == 7 and self._more["odd"] else 0)}


class Tokenizer:
    """What transformers' slow tokenizers have."""

    padding_side = "right"

    def __init__(self, odd: bool) -> None:
        self._odd = odd

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0, "c" if self._odd else "b": 1}

    def convert_tokens_to_ids(self, token: str) -> int:
        return self.get_vocab()[token]


def _different_values(rank: int) -> dict[str, tuple[Any, str]]:
    """Name: (value, what the error has to say). Rank 1 differs."""
    import numpy as np
    import torch
    from torch.utils import data

    odd = rank == 1
    long = list(range(300_000))
    texts = [f"row {n}" for n in range(5000)]
    tensor = torch.zeros(40, 1000, dtype=torch.bfloat16)
    big = torch.zeros(3_000_000)
    array = np.zeros((7, 9))
    model = torch.nn.Linear(3, 4)
    torch.nn.init.constant_(model.weight, 1.0)
    torch.nn.init.constant_(model.bias, 2.0 + odd)
    if odd:
        long[123_456] = -1
        texts[4999] = "other"
        tensor[17, 3] = 1
        big[1_234_567] = 1
        array[6, 8] = 1
    huge = [0] * 1_999_999 + [int(odd)]
    many = {f"key {n}": n for n in range(2000)}
    if odd:
        many["key 1234"] = 0
    rows = data.TensorDataset(torch.arange(10))
    return {
        "int": (80 + odd, "int: 80 on rank 0, 81 on rank 1"),
        "length": ([0] * (80 + odd), "length 80 on rank 0, 81 on rank 1"),
        "long": (long, "long[123456]: 123456 on rank 0, -1 on rank 1"),
        "short": ([*range(99), int(odd)], "short[99]: 0 on rank 0, 1 on rank 1"),
        "huge": (huge, "huge[1999999]: 0 on rank 0, 1 on rank 1"),
        "tokens": ([[*range(600), int(odd)]] * 300, "tokens[0][600]: 0 on rank 0, 1 on rank 1"),
        "set": ({"a", "b" if odd else "c"}, "only on rank 0"),
        "texts": (texts, "texts[4999]: 'row 4999' on rank 0, 'other' on rank 1"),
        "deep": ({"a": [1, {"b": (2, 3 + odd)}]}, "deep['a'][1]['b'][1]: 3 on rank 0, 4 on rank 1"),
        "keys": ({"a": 1, ("c" if odd else "b"): 2}, "keys['b']: only on rank 0"),
        "type": (1.0 if odd else 1, "type: int 1 on rank 0, float 1.0 on rank 1"),
        "many": (many, "many['key 1234']: 1234 on rank 0, 0 on rank 1"),
        "dataclass": (Settings(lr=0.1 + odd), "dataclass['lr']: 0.1 on rank 0, 1.1 on rank 1"),
        "namespace": (
            argparse.Namespace(seed=int(odd), local_rank=rank),
            "namespace['seed']: 0 on rank 0, 1 on rank 1",
        ),
        "tensor": (tensor, "tensor[17, 3]: 0.0 on rank 0, 1.0 on rank 1"),
        "big": (big, "big[1234567]: 0.0 on rank 0, 1.0 on rank 1"),
        "array": (array, "array[6, 8]: 0.0 on rank 0, 1.0 on rank 1"),
        "dtype": (torch.zeros(3, dtype=torch.float64 if odd else torch.float32), "tensor float64 (3,) on rank 1"),
        "module": (model, "module['bias'][0]: 2.0 on rank 0, 3.0 on rank 1"),
        "subset": (data.Subset(rows, [0, 1, 2 + odd]), "subset.indices[2]: 2 on rank 0, 3 on rank 1"),
        "own data set": (Own(odd), "own data set[7]['x']: 7 on rank 0, 8 on rank 1"),
        "tokenizer": (Tokenizer(odd), "tokenizer['vocabulary'][1]: 'b' on rank 0, 'c' on rank 1"),
        "partial": (functools.partial(print, 1 + odd), "partial['args'][0]: 1 on rank 0, 2 on rank 1"),
        "generator": (torch.Generator().manual_seed(int(odd)), "generator: seed 0 on rank 0, seed 1 on rank 1"),
    }


def _may_read_for(series_s: float) -> None:
    """How long this rank reads one series, in seconds."""
    from unhang.guards import sameness

    sameness.FingerprintBudget = functools.partial(
        sameness.FingerprintBudget, series_s=series_s, total_s=100 * series_s
    )


def _compare_different(rank: int) -> list[tuple[str, str, str]]:
    import unhang
    from unhang.errors import RanksDiffer

    _may_read_for(60)  # a machine that is busy with something else would cut it short, and say so
    said = []
    for name, (value, expected) in _different_values(rank).items():
        try:
            unhang.same_on_all_ranks(value, name)
        except RanksDiffer as error:
            said.append((name, expected, f"{error} {error.ranks}"))
        else:
            said.append((name, expected, "passed"))
    return said


def test_the_first_difference_is_named_on_every_rank() -> None:
    outcomes = run_ranks(_compare_different, world_size=3)

    assert outcomes[0].get() == outcomes[1].get() == outcomes[2].get()
    for name, expected, message in outcomes[0].get():
        assert f"{name} is not the same on all ranks: rank 1 differs from ranks 0, 2" in message
        assert expected in message, message
        assert message.endswith(" (1,)")


def _ranks_alone(rank: int, value_of: Callable[[int], Any]) -> None:
    import unhang

    unhang.same_on_all_ranks(value_of(rank), "train")


def _by_rank(rank: int) -> list[int]:
    return [rank, 1]


def test_without_a_majority_nobody_is_the_odd_one() -> None:
    outcomes = run_ranks(_ranks_alone, _by_rank, world_size=2)

    for outcome in outcomes:
        assert outcome.error == "RanksDiffer"
        assert outcome.attributes["ranks"] == (0, 1)
        assert "train is different on each of ranks 0, 1" in outcome.message
        assert outcome.attributes["place"] == "[0]"


def _unreadable_on_one(rank: int) -> Any:
    from torch.utils import data

    class Rows(data.Dataset[Any]):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> int:
            if rank == 1:
                raise KeyError("img_0003.png")
            return index

    return Rows()


def test_data_that_one_rank_cannot_read() -> None:
    outcomes = run_ranks(_ranks_alone, _unreadable_on_one, world_size=3)

    for outcome in outcomes:
        assert "rank 1 cannot read it: KeyError: 'img_0003.png'" in outcome.message


def _late(rank: int) -> str:
    import contextlib
    import io
    import time

    import unhang

    if rank == 1:
        time.sleep(600)
    with contextlib.redirect_stderr(io.StringIO()) as told:
        unhang.same_on_all_ranks([1], "train", timeout_s=0.3)
    return told.getvalue()


def test_training_goes_on_when_a_rank_does_not_come() -> None:
    outcomes = run_ranks(_late, world_size=2, until=0)

    assert "train was not compared: rank 1 did not call same_on_all_ranks within 0.3 s" in outcomes[0].get()


def test_one_process_alone_compares_with_nobody() -> None:
    import unhang

    unhang.same_on_all_ranks(object(), "anything")


def _slow_to_read(rank: int) -> list[str]:
    import time

    from torch.utils import data

    import unhang
    from unhang.errors import RanksDiffer

    class Rows(data.Dataset[Any]):
        def __init__(self, odd: int) -> None:
            self.odd = odd

        def __len__(self) -> int:
            return 3000

        def __getitem__(self, index: int) -> int:
            time.sleep(0.001 * (1 + 4 * rank))
            return self.odd if index == 2999 else index

    _may_read_for(0.2)
    unhang.same_on_all_ranks(Rows(0), "train")
    try:
        unhang.same_on_all_ranks(Rows(rank), "train")
    except RanksDiffer as error:
        return [str(error)]
    return []


def test_a_rank_that_reads_slowly_compares_what_both_have_read() -> None:
    first, second = run_ranks(_slow_to_read, world_size=2)

    assert "train[2999]: 0 on rank 0, 1 on rank 1" in first.get()[0]
    assert re.search(r"Compared only: \d+ of 3,000 entries", second.get()[0])
