"""seed_everything makes every source of random numbers repeat itself, and only differ by rank where asked to."""

from __future__ import annotations

import random
from typing import Any

import pytest

import unhang
from tests.guards.ranks import run_ranks
from unhang.errors import UsageError

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


class Draws(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(1))]


def draw() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(1))]


def test_the_same_seed_draws_the_same() -> None:
    unhang.seed_everything(7)
    first = draw()
    unhang.seed_everything(7)

    assert draw() == first
    unhang.seed_everything(8)
    assert all(one != other for one, other in zip(draw(), first, strict=True))


def test_workers_of_a_loader_draw_the_same_again_and_not_alike() -> None:
    def rows() -> list[Any]:
        unhang.seed_everything(7)
        loader = torch.utils.data.DataLoader(
            Draws(), batch_size=None, num_workers=2, worker_init_fn=unhang.seed_worker, collate_fn=list
        )
        return list(loader)

    first = rows()

    assert rows() == first
    assert first[0] != first[1], "two workers draw alike"


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "7", True, None])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="integer from 0 to"):
        unhang.seed_everything(seed)


def _draws(rank: int, rank_offset: bool) -> tuple[list[float], str]:
    unhang.seed_everything(2**32 - 1, rank_offset=rank_offset)
    drawn = draw()
    try:
        unhang.same_on_all_ranks(unhang.random_states(), "random states")
    except unhang_errors() as error:
        return drawn, str(error)
    return drawn, ""


def unhang_errors() -> type[Exception]:
    from unhang.errors import RanksDiffer

    return RanksDiffer


@pytest.mark.job
def test_ranks_draw_alike_unless_asked_otherwise() -> None:
    same = [outcome.get() for outcome in run_ranks(_draws, False)]
    apart = [outcome.get() for outcome in run_ranks(_draws, True)]

    assert same[0] == same[1]
    assert same[0][1] == ""
    assert apart[0][0] == same[0][0], "rank 0 has the seed itself"
    assert all(one != other for one, other in zip(apart[0][0], apart[1][0], strict=True))
    assert "The random states differ by rank (rank_offset=True): split before that" in apart[1][1]
