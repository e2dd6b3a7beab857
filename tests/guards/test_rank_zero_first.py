"""rank_zero_first(): the others wait without a collective, and learn at once when the first rank fails or dies."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.guards import ranks
from unhang.errors import UsageError
from unhang.guards import rank_zero_first as module
from unhang.guards.rank_zero_first import rank_zero_first

pytestmark = pytest.mark.job
MAX_KEYS = 25


def tokenise(rank: int, folder: Path) -> tuple[bool, int]:
    cache = folder / "cache"
    with rank_zero_first("tokenisation") as first:
        if not cache.exists():
            time.sleep(0.5)
            cache.write_text(str(rank))
    with rank_zero_first("tokenisation"):
        pass
    return first, int(cache.read_text())


def keys_left(rank: int) -> int:
    from torch.distributed.distributed_c10d import _get_default_store

    from unhang.guards.exchange.store_connection import unwrap_prefixes

    for _ in range(20):
        with rank_zero_first("download"):
            pass
    server = unwrap_prefixes(_get_default_store())
    until = time.monotonic() + 30
    while (keys := int(server.num_keys())) >= MAX_KEYS and time.monotonic() < until:  # type: ignore[attr-defined]
        time.sleep(0.05)  # they are taken out in the background
    return keys


def per_machine(rank: int) -> bool:
    os.environ["LOCAL_RANK"] = str(rank % 2)  # two "machines" of two ranks share this one's name
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    module.socket.gethostname = lambda: f"node{rank // 2}"
    with rank_zero_first("unpacking", local=True) as first:
        return first


def raises(rank: int) -> None:
    with rank_zero_first("tokenisation"):
        if rank == 0:
            raise ValueError("no such column: text")


def dies(rank: int) -> None:
    module.HEARTBEAT_S = 0.1
    with rank_zero_first("tokenisation"):
        if rank == 0:
            time.sleep(2.5)
            os.kill(os.getpid(), signal.SIGKILL)  # dies


def takes_too_long(rank: int) -> None:
    with rank_zero_first("tokenisation", timeout_s=6):
        if rank == 0:
            time.sleep(60)  # busy


def never_comes(rank: int) -> None:
    if rank == 0:
        time.sleep(60)  # elsewhere
    with rank_zero_first("tokenisation", timeout_s=1):
        pass


def tells(rank: int, folder: Path) -> str:
    module.FIRST_LINE_S = 0.5
    module.HEARTBEAT_S = 0.1
    said = folder / f"stderr{rank}"
    with said.open("w") as file:
        os.dup2(file.fileno(), 2)
    with rank_zero_first("tokenisation"):
        if rank == 0:
            until = time.monotonic() + 60
            while not (folder / "stderr1").read_text() and time.monotonic() < until:
                time.sleep(0.1)  # long work
            time.sleep(0.5)  # nobody else says it
    return said.read_text()


def test_rank_0_does_it_and_the_others_find_it_done(tmp_path: Path) -> None:
    outcomes = ranks.run_ranks(tokenise, tmp_path, world_size=3)

    assert [outcome.get() for outcome in outcomes] == [(True, 0), (False, 0), (False, 0)]


def test_the_store_does_not_grow_with_the_calls() -> None:
    assert max(outcome.get() for outcome in ranks.run_ranks(keys_left)) < MAX_KEYS


def test_one_rank_of_each_machine_is_first() -> None:
    assert [outcome.get() for outcome in ranks.run_ranks(per_machine, world_size=4)] == [True, False, True, False]


def test_an_exception_on_rank_0_reaches_the_others() -> None:
    first, other = ranks.run_ranks(raises)

    assert first.error == "ValueError"
    assert other.error == "RankFailed"
    assert "rank 0 failed: ValueError: no such column: text" in other.message


def test_the_death_of_rank_0_is_noticed_and_its_last_line_told() -> None:
    other = ranks.run_ranks(dies)[1]

    assert other.error == "RankFailed"
    assert "rank 0 ended before it was done, last seen at " in other.message
    assert "in dies" in other.message


@pytest.mark.live
def test_a_limit_of_ones_own_holds() -> None:
    other = ranks.run_ranks(takes_too_long, until=1)[1]

    assert other.error == "RankFailed"
    assert "is not done after 6 s, last seen at " in other.message


@pytest.mark.live
def test_a_first_rank_that_never_comes_is_named_with_its_line() -> None:
    other = ranks.run_ranks(never_comes, until=1)[1]

    assert other.error == "RanksMissing"
    assert other.attributes["ranks"] == (0,)


@pytest.mark.live
def test_one_rank_says_what_it_waits_for(tmp_path: Path) -> None:
    first, speaker, silent = (outcome.get() for outcome in ranks.run_ranks(tells, tmp_path, world_size=3))

    assert "[unhang] tokenisation: rank 0 has worked on it for" in speaker
    assert f"{Path(__file__).name}:" in speaker
    assert "2 ranks wait on the store" in speaker
    assert (first, silent) == ("", "")


def test_without_a_group_the_block_just_runs() -> None:
    with rank_zero_first() as first:
        assert first
    with pytest.raises(UsageError):
        rank_zero_first("x", timeout_s=-1)
