"""Every rank and every worker gets as many samples as any other: by arithmetic, and read with webdataset itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reshard.pictures import write_table
from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import ReadOptions
from unhang_reshard.reshard import Resharded, ReshardOptions, reshard
from unhang_reshard.shard_sizes import even_sizes

pytest.importorskip("webdataset")

READ = """
import json, os, sys
import webdataset as wds
from torch.utils.data import DataLoader
found = []
for rank, ranks, workers in json.loads(sys.argv[2]):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
    shards = wds.WebDataset(
        sys.argv[1], nodesplitter=wds.split_by_node, workersplitter=wds.split_by_worker, shardshuffle=False
    )
    loader = DataLoader(shards.to_tuple("png", "txt"), batch_size=None, num_workers=workers)
    found.append([text.decode() for _, text in loader])
print(json.dumps(found))
"""


def written(folder: Path, count: int, order: ReshardOptions, **more: object) -> Resharded:
    table = write_table(folder, count, **more)  # type: ignore[arg-type]
    return reshard([str(table)], folder / "out", order, ReadOptions())


def read_by(done: Resharded, *readers: tuple[int, int, int]) -> list[list[str]]:
    """What the loaders of these (rank, ranks, workers) give, through the real library."""
    urls = f"{done.folder}/shard-{{000000..{done.even.shards - 1:06d}}}.tar"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, urls, json.dumps(readers)],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found: list[list[str]] = json.loads(ran.stdout)
    return found


def test_all_ranks_and_workers_read_the_same_number_and_together_everything(tmp_path: Path) -> None:
    done = written(tmp_path, 43, ReshardOptions((2, 3), workers=2))

    assert (done.even.shards, done.even.per_shard, done.even.left_out) == (12, 3, 7)
    *two, third, alone = read_by(done, (0, 2, 2), (1, 2, 2), (2, 3, 0), (0, 1, 0))
    assert [len(texts) for texts in two] == [18, 18]
    assert sorted(text for texts in two for text in texts) == sorted(f"picture {number}" for number in range(36))
    assert (len(third), len(alone)) == (12, 36)


def test_repeating_keeps_every_sample(tmp_path: Path) -> None:
    done = written(tmp_path, 43, ReshardOptions((2,), workers=2, when_uneven="repeat"))

    counts = Counter(text for texts in read_by(done, (0, 2, 0), (1, 2, 0)) for text in texts)
    assert len(counts) == 43
    assert sorted(counts.values()) == [1] * 42 + [2]
    assert (done.even.repeated, done.even.left_out) == (1, 0)


@given(
    samples=st.integers(1, 5000),
    ranks=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    workers=st.integers(1, 4),
    per_shard=st.integers(1, 300),
    repeat=st.booleans(),
)
def test_the_sizes_are_equal_for_every_world_size_asked_for(
    samples: int, ranks: list[int], workers: int, per_shard: int, repeat: bool
) -> None:
    try:
        sizes = even_sizes(
            samples, 0, ranks=ranks, workers=workers, when_uneven="repeat" if repeat else "drop", per_shard=per_shard
        )
    except UsageError:
        assert not repeat
        return
    assert all(sizes.shards % (size * workers) == 0 and size in sizes.even_for for size in ranks)
    assert sizes.per_shard > 0
    assert sizes.written == samples - sizes.left_out + sizes.repeated
    assert (sizes.left_out, sizes.repeated).count(0) >= 1
    if not repeat:
        assert sizes.left_out < sizes.shards


def test_a_large_data_set_gets_shards_of_half_a_gigabyte() -> None:
    sizes = even_sizes(100_000, 400 << 30, ranks=[8], workers=4, when_uneven="drop", per_shard=10_000)

    assert 300 << 20 < (400 << 30) // sizes.shards <= 512 << 20


def test_too_few_samples_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 samples cannot be shared by 2 ranks with 4 workers each"):
        written(tmp_path, 3, ReshardOptions((2,)))


def test_more_shards_than_anybody_can_want_are_refused() -> None:
    with pytest.raises(UsageError, match="shards would be needed"):
        even_sizes(10, 0, ranks=[1021, 1019], workers=4, when_uneven="repeat", per_shard=100)
