"""even_batches: every rank takes the same number of batches, whatever it iterates and however a rank leaves."""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks
from unhang.errors import UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.job


class Stream:
    """A loader of unknown length. Counts how often it was begun."""

    def __init__(self, length: int, fails_at: int = -1) -> None:
        self.length, self.fails_at, self.epoch = length, fails_at, -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        for n in range(self.length):
            if n == self.fails_at:
                raise OSError("shard-7.tar is cut short")
            yield n


def _step() -> None:
    """What training does: a collective that every rank has to enter."""
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))


def _told(body: Any) -> tuple[Any, str]:
    with contextlib.redirect_stderr(io.StringIO()) as told:
        found = body()
    return found, told.getvalue()


def _epochs(loader: Any, when_uneven: str, epochs: int = 1) -> tuple[list[list[Any]], str]:
    import unhang

    even = unhang.even_batches(loader, when_uneven)

    def run() -> list[list[Any]]:
        taken: list[list[Any]] = []
        for _ in range(epochs):
            taken.append([])
            for batch in even:
                _step()
                taken[-1].append(batch if isinstance(batch, int) else len(batch))  # no tensors between processes
        return taken

    return _told(run)


def _many_loaders(rank: int) -> dict[str, Any]:
    """Name: batches taken in each epoch, and what was printed. Rank 1 has two batches fewer."""
    from torch.utils import data

    own = 9 if rank != 1 else 7
    rows = data.TensorDataset(torch.arange(own * 2))
    found: dict[str, Any] = {}
    for mode in ("stop", "pad"):
        found[f"list {mode}"] = _epochs(list(range(own)), mode, 2)
        found[f"loader {mode}"] = _epochs(data.DataLoader(rows, batch_size=2), mode)
        found[f"stream {mode}"] = _epochs(Stream(own), mode, 2)
        found[f"generator {mode}"] = _epochs((n for n in range(own)), mode)
        found[f"one batch {mode}"] = _epochs(Stream(1), mode)
        found[f"one has a length {mode}"] = _epochs([1] * own if rank == 0 else Stream(own), mode)
    found["empty"] = _epochs(Stream(own if rank == 0 else 0), "stop")
    found["none at all"] = _epochs(Stream(0), "stop")
    found["equal"] = _epochs(Stream(5), "error")
    return found


def test_every_rank_takes_as_many() -> None:
    outcomes = run_ranks(_many_loaders, world_size=3, limit_s=100)

    for outcome in outcomes:
        found = outcome.get()
        for name, count in (("list", 7), ("loader", 7), ("stream", 7), ("generator", 7), ("one has a length", 7)):
            assert [len(taken) for taken in found[f"{name} stop"][0]] in ([count], [count, count]), name
        for name in ("list", "loader", "stream", "generator", "one has a length"):
            assert {len(taken) for taken in found[f"{name} pad"][0]} == {9}, name
        assert found["one batch stop"][0] == found["one batch pad"][0] == [[0]]
        assert found["empty"][0] == found["none at all"][0] == [[]]
        assert len(found["equal"][0][0]) == 5
    assert outcomes[1].get()["stream pad"][0][0] == [0, 1, 2, 3, 4, 5, 6, 0, 1]
    assert outcomes[1].get()["generator pad"][0][0] == [0, 1, 2, 3, 4, 5, 6, 0, 0]
    told = {name: said for name, (_, said) in outcomes[0].get().items()}
    assert "7 batches on every rank; ranks 0, 2 dropped 2\n" in told["list stop"]
    assert re.search("7 batches on every rank; ranks 0, 2 dropped at least [12]\n", told["stream stop"])
    assert "9 batches on every rank; rank 1 repeated 2\n" in told["stream pad"]
    assert told["equal"] == told["none at all"] == ""


def _error(rank: int, kind: str) -> None:
    own = 9 if rank != 1 else 7
    _epochs(list(range(own)) if kind == "list" else Stream(own), "error")


@pytest.mark.parametrize(
    ("kind", "says"), [("list", "rank 1 7, ranks 0, 2 9"), ("stream", "differ: rank 1 7, ranks 0, 2 [89] or more")]
)
def test_uneven_ranks_are_an_error_when_asked_for(kind: str, says: str) -> None:
    for outcome in run_ranks(_error, kind, world_size=3):
        assert outcome.error == "RanksDiffer"
        assert re.search(says, outcome.message)
        assert outcome.attributes["ranks"] == (1,)


def _fails(rank: int, kind: str, at: int) -> None:
    from torch.utils import data

    class Rows(data.Dataset[int]):
        def __len__(self) -> int:
            return 9

        def __getitem__(self, index: int) -> int:
            if rank == 1 and index == at:
                raise OSError("shard-7.tar is cut short")
            return index

    loader = Stream(9, at if rank == 1 else -1) if kind == "stream" else data.DataLoader(Rows(), batch_size=None)
    if kind == "rows":
        loader = data.DataLoader(Rows(), batch_size=1)
    _epochs(loader, "stop")


@pytest.mark.parametrize("kind", ["stream", "rows"])
@pytest.mark.parametrize("at", [0, 4, 8])
def test_a_loader_that_fails_is_heard_of_on_every_rank(kind: str, at: int) -> None:
    outcomes = run_ranks(_fails, kind, at, world_size=3)

    assert [outcome.error for outcome in outcomes] == ["RankFailed", "OSError", "RankFailed"]
    assert "rank 1" in outcomes[0].message
    assert "OSError: shard-7.tar is cut short" in outcomes[0].message


def _leaves(rank: int, kind: str, at: int, everyone: bool) -> int:
    import unhang

    taken = 0
    for taken, _ in enumerate(unhang.even_batches(list(range(40)) if kind == "list" else Stream(40)), 1):
        if taken == at and (everyone or rank == 1):
            break
        if not everyone:
            time.sleep(0.05)  # no collective: the others run on
    return taken


@pytest.mark.parametrize("kind", ["list", "stream"])
def test_a_rank_that_leaves_alone_is_named(kind: str) -> None:
    outcomes = run_ranks(_leaves, kind, 5, False, world_size=3)

    assert outcomes[1].get() == 5
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.error == "RanksDiffer"
        assert outcome.attributes["ranks"] == (1,)
        assert "rank 1 goes no further than 5 batches: it left the loop" in outcome.message


def _leaves_while_the_others_are_in_the_next_batch(rank: int) -> str:
    from torch.distributed.distributed_c10d import _get_default_store

    import unhang

    store = _get_default_store()
    with contextlib.redirect_stderr(io.StringIO()) as told:
        for taken, _ in enumerate(unhang.even_batches(list(range(40))), 1):
            if taken == 5 and rank == 1:
                store.wait(["rank 0 is in batch 6"], timedelta(seconds=60))
                break
            if taken == 6:
                store.set("rank 0 is in batch 6", "")
                until = time.monotonic() + 60
                while not told.getvalue() and time.monotonic() < until:  # as in a collective: it takes no batch
                    time.sleep(0.05)
                break
    return told.getvalue()


def test_where_no_exception_can_reach_a_rank_a_line_says_who_left() -> None:
    outcomes = run_ranks(_leaves_while_the_others_are_in_the_next_batch, world_size=2)

    assert "rank 1 goes no further than 5 batches: it left the loop" in outcomes[0].get()
    assert "this rank is in batch 6" in outcomes[0].get()


@pytest.mark.parametrize("kind", ["list", "stream"])
def test_all_may_leave_at_the_same_batch_and_come_again(kind: str) -> None:
    for outcome in run_ranks(_leaves_and_returns, kind, world_size=2):
        assert outcome.get() == [5, 40]


def _leaves_and_returns(rank: int, kind: str) -> list[int]:
    return [_leaves(rank, kind, 5, True), _leaves(rank, kind, 400, True)]


def _nested(rank: int) -> list[tuple[int, int]]:
    import unhang

    train = unhang.even_batches(Stream(6 + rank))
    test = unhang.even_batches(Stream(3 - rank))
    found = []
    for place, _ in enumerate(train):
        _step()
        if place % 2:
            found.append((place, sum(1 for _ in test)))
    return found


def test_loops_in_loops() -> None:
    for outcome in run_ranks(_nested, world_size=2):
        assert outcome.get() == [(1, 2), (3, 2), (5, 2)]


def _other_loop(rank: int) -> None:
    import unhang

    first = unhang.even_batches(Stream(5), timeout_s=2.0)
    second = unhang.even_batches(Stream(5), timeout_s=2.0)
    for _ in first if rank == 0 else second:
        pass


def test_ranks_in_different_loops_are_not_mixed_up() -> None:
    outcomes = run_ranks(_other_loop, world_size=2, limit_s=60)

    assert {outcome.error for outcome in outcomes} == {"RanksMissing"}


def _like_a_loader(rank: int) -> tuple[Any, ...]:
    import unhang

    loader = Stream(3)
    even = unhang.even_batches(loader)
    even.set_epoch(4)
    sized = unhang.even_batches([1] * (3 + rank))
    with pytest.raises(TypeError):
        len(even)
    with pytest.raises(AttributeError):
        even.nothing_of_the_kind  # noqa: B018
    return loader.epoch, len(sized), len(unhang.even_batches([1] * (3 + rank), "pad"))


def test_it_looks_like_the_loader() -> None:
    for outcome in run_ranks(_like_a_loader, world_size=2):
        assert outcome.get() == (4, 3, 4)


def _dies(rank: int) -> None:
    import os

    import unhang

    for batch in unhang.even_batches(Stream(1000)):
        if rank == 1 and batch == 3:
            os._exit(9)


def test_a_rank_that_dies_ends_the_wait() -> None:
    outcome = run_ranks(_dies, world_size=2)[0]

    assert (outcome.error, outcome.attributes["rank"]) == ("RankFailed", 1)
    assert "the process of rank 1 has ended" in outcome.message


def _streams_with_workers(rank: int, folder: str) -> dict[str, int]:
    import multiprocessing

    import webdataset
    from torch.utils import data

    import unhang

    multiprocessing.current_process()._config["daemon"] = False  # it may have loader workers

    class Rows(data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            worker = data.get_worker_info()
            yield from range(worker.id if worker else 0, 20 + 6 * rank, worker.num_workers if worker else 1)

    with webdataset.TarWriter(f"{folder}/{rank}.tar") as tar:
        for n in range(12 + rank):
            tar.write({"__key__": f"{n:04}", "cls": n})
    pipeline = webdataset.WebDataset([f"{folder}/{rank}.tar"], shardshuffle=False, nodesplitter=lambda urls: urls)
    loaders: dict[str, Any] = {
        "stream": data.DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context="fork"),
        "told": data.DataLoader(pipeline.decode().to_tuple("cls").with_length(50), batch_size=3),
        "shards": webdataset.WebLoader(pipeline.decode().to_tuple("cls"), batch_size=3),
    }
    return {name: sum(1 for _ in unhang.even_batches(loader)) for name, loader in loaders.items()}


def test_streams_with_workers_and_webdataset(tmp_path: Path) -> None:
    pytest.importorskip("webdataset")
    for outcome in run_ranks(_streams_with_workers, str(tmp_path), world_size=2):
        assert outcome.get() == {"stream": 6, "told": 4, "shards": 4}


def _long(rank: int, mode: str) -> list[int]:
    (taken,), _ = _epochs(Stream(500 + 7 * rank), mode)
    return taken


def test_windows_grow_when_steps_are_short_and_nothing_is_lost() -> None:
    for outcome in run_ranks(_long, "stop", world_size=2):
        assert outcome.get() == list(range(500))


def test_alone_it_is_the_loader() -> None:
    import unhang

    assert list(unhang.even_batches(Stream(3))) == [0, 1, 2]
    with pytest.raises(UsageError, match="choose one of"):
        unhang.even_batches([1], "maybe")  # type: ignore[arg-type]
