"""Guards among programs that are not kind to them: exceptions that cannot be told, batches that cannot be copied, ranks
that are stopped, limits set over everything."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.job


class CannotBeTold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raises_what_cannot_be_told(rank: int, guard: str) -> str:
    try:
        _raise_inside(rank, guard)
    except CannotBeTold:
        return "raised"
    return "went on"


def _raise_inside(rank: int, guard: str) -> None:
    import unhang

    if guard == "together":
        with unhang.together("save"):
            if rank == 0:
                raise CannotBeTold
    elif guard == "rank_zero_first":
        with unhang.rank_zero_first("tokenisation"):
            if rank == 0:
                raise CannotBeTold
    else:
        for _ in unhang.even_batches(_fails(rank)):
            pass


def _fails(rank: int) -> Iterator[int]:
    yield 1
    if rank == 0:
        raise CannotBeTold
    yield 2


@pytest.mark.parametrize("guard", ["together", "rank_zero_first", "even_batches"])
def test_an_exception_that_cannot_be_told_stays_itself_and_the_others_hear_of_it(guard: str) -> None:
    first, second = run_ranks(_raises_what_cannot_be_told, guard)

    assert second.error == "RankFailed"
    assert "rank 0" in second.message
    assert "CannotBeTold" in second.message
    assert "ended" not in second.message
    assert first.get() == "raised"


def _locks(count: int) -> Iterator[Any]:
    for _ in range(count):
        yield threading.Lock()


def _pads_what_cannot_be_copied(rank: int) -> int:
    import unhang

    return len(list(unhang.even_batches(_locks(2 + 2 * rank), "pad")))


def test_batches_that_cannot_be_copied_pad_as_they_are() -> None:
    assert [outcome.get() for outcome in run_ranks(_pads_what_cannot_be_copied)] == [4, 4]


def _one_fails_where_nothing_holds_the_others(rank: int) -> str:
    import unhang
    from unhang.errors import GuardError

    class Rows:
        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int) -> int:
            if rank == 1 and index == 4:
                raise OSError("bad row")
            return index

    from torch.utils.data import DataLoader

    try:
        for _ in unhang.even_batches(DataLoader(Rows())):  # type: ignore[arg-type]
            time.sleep(0.3)
    except (GuardError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "the loop ended as if all were well"


def test_a_loop_without_collectives_does_not_end_as_if_all_ranks_had_gone_as_far() -> None:
    first, second = (outcome.get() for outcome in run_ranks(_one_fails_where_nothing_holds_the_others))

    assert second == "OSError: bad row"
    assert "rank 1 goes no further than 4 batches: its loader raised OSError: bad row" in first


def _first_rank_is_stopped(rank: int) -> None:
    import unhang

    with unhang.rank_zero_first("tokenisation", timeout_s=3) as first:
        if first:
            os.kill(os.getpid(), signal.SIGSTOP)


def test_a_first_rank_that_was_stopped_is_said_to_be_so() -> None:
    _, second = run_ranks(_first_rank_is_stopped, until=1)

    assert second.error == "RankFailed"
    assert "rank 0 is stopped (SIGSTOP or a debugger)" in second.message


def _limits_of_groups_of_guards(rank: int, path: str) -> tuple[list[str], list[float]]:
    import torch
    from torch.distributed.distributed_c10d import _world

    import unhang

    unhang.save_together(torch.nn.Linear(1, 1), path, sharded=True)
    list(unhang.even_batches(iter(range(3))))
    said = unhang.limits(train=5)
    ours = [group for group in _world.pg_map if group.group_desc.startswith("unhang ")]
    held = [group._get_backend(torch.device("cpu")).options._timeout.total_seconds() for group in ours]
    return [limit.group for limit in said.groups], held


def test_limits_leaves_the_groups_of_guards_alone(tmp_path: Path) -> None:
    """Slow storage and a slow rank are waited for there as long as the guard was told to."""
    for outcome in run_ranks(_limits_of_groups_of_guards, str(tmp_path / "model")):
        groups, held = outcome.get()
        assert groups == ["default_pg"]
        assert held == [1800.0, 1800.0]


def _long_texts(rank: int) -> dict[str, str]:
    import unhang
    from unhang.errors import RanksDiffer

    written = "\n".join(f"key{n}: {n}" for n in range(1000))
    values = {
        "config": written.replace("key512: 512", f"key512: {rank}"),
        "ends": "x" * 4096 * (1 + rank),
        "longer": "y" * 64 * (1 + rank),
        "bytes": bytes(5000) + bytes([rank]),
        "within": {"prompts": ["p" * 100, "q" * 100 + str(rank)]},
        "number": 10**5000 + rank,
        "equal": written,
    }
    said = {}
    for name, value in values.items():
        try:
            unhang.same_on_all_ranks(value, name)
            said[name] = ""
        except RanksDiffer as error:
            said[name] = str(error)
    return said


def test_long_texts_show_the_passage_that_differs() -> None:
    first, second = (outcome.get() for outcome in run_ranks(_long_texts))

    assert first == second
    assert "key512: 0" in first["config"]
    assert "key512: 1" in first["config"]
    assert "ends[4096:4128]: '' on rank 0" in first["ends"]
    assert "'… on rank 1" in first["longer"]
    assert r"\x00\x01' on rank 1" in first["bytes"]
    assert "within['prompts'][1][96:128]: 'qqqq0' on rank 0, 'qqqq1' on rank 1" in first["within"]
    assert "number" in first["number"]
    assert not first["equal"]


def _shards_for_different_folders(rank: int, folder: str) -> None:
    import torch

    import unhang

    unhang.save_together(torch.nn.Linear(1, 1), f"{folder}/step{rank}", sharded=True)


def test_shards_for_different_folders_are_refused_before_any_is_written(tmp_path: Path) -> None:
    """One rank has skipped a save: the parts would lie in two folders, and neither could be read."""
    outcomes = run_ranks(_shards_for_different_folders, str(tmp_path))

    assert [outcome.error for outcome in outcomes] == ["RanksDiffer", "RanksDiffer"]
    # a text is compared in pieces: where the path is cut depends on its length
    assert "0' on rank 0, " in outcomes[0].message
    assert not list(tmp_path.iterdir())


def test_a_guard_that_a_library_calls_is_placed_at_the_program_that_called_the_library(tmp_path: Path) -> None:
    from unhang.guards.call_site import called_from

    library = tmp_path / "site-packages" / "trainer.py"
    library.parent.mkdir()
    library.write_text("def train(callback):\n    return callback()\n")
    spec = importlib.util.spec_from_file_location("trainer", library)
    assert spec is not None
    assert spec.loader is not None
    trainer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(trainer)

    place = trainer.train(called_from)

    assert place.startswith(__file__)
