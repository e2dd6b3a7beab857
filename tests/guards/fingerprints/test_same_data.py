"""same_on_all_ranks on the data sets people train with: split and filtered, equal or not, and why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks

pytest.importorskip("torch")
pytest.importorskip("datasets")
pytestmark = pytest.mark.job

EXPECTED = {
    "seeded": "",
    "stream": "",
    "webdataset": "",
    "filtered": "First difference: data: length 100 on rank 0, 1000 on rank 1",
    "one cell": "First difference: data[2999]['text']: 'row 2999' on rank 0, 'other' on rank 1",
    "shards": "['shards']: length 4 on rank 0, 5 on rank 1",
    "unseeded": "First difference: data['test'][0]['ids'][0]",
}
"""What is compared, and what the error says; nothing where the ranks hold the same."""


def _rows(count: int = 3000) -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict(
        {"text": [f"row {n}" for n in range(count)], "ids": [[n] * 20 for n in range(count)]}
    )


def _unseeded(rank: int) -> Any:
    return _rows().train_test_split(0.1)


def _seeded(rank: int, folder: str) -> Any:
    import datasets

    split = _rows().train_test_split(0.1, seed=42)
    if rank == 0:  # the others would load what rank 0 saved: the same rows, stored otherwise
        return split
    split.save_to_disk(f"{folder}/{rank}")
    return datasets.load_from_disk(f"{folder}/{rank}")


def _compare(rank: int, folder: str) -> dict[str, str]:
    import numpy as np

    import unhang
    from unhang.errors import RanksDiffer

    np.random.set_state(np.random.RandomState(rank).get_state())  # forked ranks would draw alike
    said = {}
    for what in EXPECTED:
        try:
            unhang.same_on_all_ranks(_value(rank, what, folder), "data")
            said[what] = ""
        except RanksDiffer as error:
            said[what] = str(error)
    return said


def _value(rank: int, what: str, folder: str) -> Any:
    if what == "unseeded":
        return _unseeded(rank)
    if what == "seeded":
        return _seeded(rank, folder)
    if what == "filtered":
        return _rows().filter(lambda row: len(row["text"]) < (8 if rank else 7))
    if what == "one cell":
        return _rows().map(lambda row: {"text": "other" if row["text"] == "row 2999" and rank else row["text"]})
    if what == "stream":
        return _rows().to_iterable_dataset(num_shards=3)
    import webdataset

    shards = [f"train-{n:03}.tar" for n in range(4 + (rank if what == "shards" else 0))]
    return webdataset.WebDataset(shards, shardshuffle=False).shuffle(10).decode()


def test_data_sets_are_compared_and_a_split_without_a_seed_is_named_with_its_line(tmp_path: Path) -> None:
    first, second = (outcome.get() for outcome in run_ranks(_compare, str(tmp_path), limit_s=100))

    assert first == second
    for what, says in EXPECTED.items():
        assert (says in first[what]) if says else not first[what], (what, first[what])
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "split(0.1)" in text)
    assert f"train_test_split at test_same_data.py:{line} has no seed, so every rank draws" in first["unseeded"]
    assert "(_rows().train_test_split(0.1, seed=42))" in first["unseeded"]
    assert "Compared only: 1,024 of 2,700 entries of ['train']" in first["unseeded"]
