"""Ranks meet out of band: all learn what all said, or who is missing, and nobody waits without a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from tests.guards import ranks
from unhang.errors import StoreLost, UsageError
from unhang.guards.exchange import packed
from unhang.guards.exchange.rank_exchange import GatheredValues, RankExchange, current_exchange
from unhang.guards.exchange.store_connection import StoreConnection

pytestmark = pytest.mark.job


def server() -> Any:
    return dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), wait_for_workers=False)


def client(port: int) -> Any:
    return dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60), wait_for_workers=False)


def at_once(meetings: list[RankExchange], *, turns: int = 1, timeout_s: float = 30.0) -> list[GatheredValues]:
    """Every meeting's last answer; each gathers in a thread of its own."""
    found: dict[int, GatheredValues] = {}
    ready = threading.Barrier(len(meetings))

    def come(here: RankExchange) -> None:
        ready.wait(100)
        for _ in range(turns):
            found[here.rank] = here.gather("turns", b"%d" % here.rank, timeout_s=timeout_s)

    threads = [threading.Thread(target=come, args=(here,)) for here in meetings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    return [found[here.rank] for here in meetings]


def settled_keys(kept: Any) -> int:
    """How many keys the store has once nobody deletes any more."""
    known = -1
    while known != (known := kept.num_keys()):
        time.sleep(0.2)
    return int(known)


def tell(rank: int) -> dict[int, bytes]:
    here = current_exchange()
    assert here is not None
    assert current_exchange() is here
    for turn in range(3):
        gathered = here.gather("turns", b"%d" % turn, timeout_s=30)
        assert set(gathered.values.values()) == {b"%d" % turn}
    return here.gather("ranks", b"r%d" % rank, timeout_s=30).values


def made_again(rank: int, folder: Path) -> list[bytes]:
    """The default group is made anew in the same processes."""
    here = current_exchange()
    assert here is not None
    here.gather("turns", b"before", timeout_s=30)
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}/again", rank=rank, world_size=2)
    anew = current_exchange()
    assert anew is not None
    assert anew is not here
    said = anew.gather("turns", b"%d" % rank, timeout_s=30).values
    return list(said.values())


def outlives_the_store(rank: int) -> None:
    here = current_exchange()
    assert here is not None
    here.gather("start", b"", timeout_s=30)
    if rank == 0:
        time.sleep(0.5)  # the others introduce themselves in the background
        os._exit(3)  # it kept the store
    with pytest.raises(StoreLost, match="the job's store is gone"):
        here.gather("save", b"", timeout_s=600)


def forks(rank: int) -> list[Any]:
    import unhang

    unhang.together("before")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        unhang.together("of the child", timeout_s=600)  # longer than the ranks may take: it waits for nobody
        unhang.same_on_all_ranks(rank, "of the child", timeout_s=600)
        with unhang.rank_zero_first("of the child", timeout_s=600) as first:
            os.write(writing, b"first" if first else b"?")
        os._exit(0)
    os.waitpid(child, 0)
    unhang.together("after")
    return [os.read(reading, 10), current_exchange() is not None]


def outlives_the_store_in_peace(rank: int) -> list[str]:
    from unhang.guards.exchange import peer_stacks

    peer_stacks.ASK_EVERY_S = 0.3
    broken: list[str] = []
    threading.excepthook = lambda args: broken.append(repr(args.exc_value))
    here = current_exchange()
    assert here is not None
    here.gather("tell", b"", timeout_s=30)
    if rank == 0:
        os._exit(0)  # the store is gone
    time.sleep(2)
    return broken


@pytest.mark.parametrize("store", ["agent", "rank0", "file"])
def test_every_rank_learns_what_all_said(store: Any, tmp_path: Path) -> None:
    for outcome in ranks.run_ranks(tell, world_size=3, store=store, folder=tmp_path):
        assert outcome.get() == {0: b"r0", 1: b"r1", 2: b"r2"}


def test_a_group_made_anew_meets_anew(tmp_path: Path) -> None:
    assert [outcome.get() for outcome in ranks.run_ranks(made_again, tmp_path)] == [[b"0", b"1"]] * 2


def test_a_store_that_dies_is_said_at_once() -> None:
    ranks.run_ranks(outlives_the_store, store="rank0")[1].get()


def test_a_rank_that_outlives_the_store_prints_nothing() -> None:
    assert ranks.run_ranks(outlives_the_store_in_peace, store="rank0")[1].get() == []


def test_in_a_forked_child_guards_do_nothing() -> None:
    for outcome in ranks.run_ranks(forks):
        assert outcome.get() == [b"first", True]


@pytest.mark.live
def test_a_store_whose_process_is_stopped_is_given_up() -> None:
    program = (
        "import torch.distributed as dist, time\n"
        "store = dist.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
        "print(store.port, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        store = client(int(keeper.stdout.readline()))
        line = StoreConnection(lambda: store, limit_s=3.0)
        assert line.do(lambda store: store.add("n", 1)) == 1
        keeper.send_signal(signal.SIGSTOP)
        for _ in range(2):
            with pytest.raises(StoreLost, match="did not answer within 3 s"):
                line.do(lambda store: store.add("n", 1))
        keeper.kill()


def test_attempts_of_one_job_do_not_hear_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = server()
    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        said = at_once([RankExchange(client(kept.port), rank, 2) for rank in range(2)])
        assert [gathered.missing for gathered in said] == [(), ()]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    alone = RankExchange(client(kept.port), 0, 2).gather("turns", b"", timeout_s=0.2)
    assert alone.missing == (1,)


def test_the_store_does_not_grow_with_the_turns() -> None:
    kept = server()
    meetings = [RankExchange(client(kept.port), rank, 3) for rank in range(3)]
    at_once(meetings, turns=5)
    before = settled_keys(kept)

    at_once(meetings, turns=20)

    until = time.monotonic() + 30
    while settled_keys(kept) > before and time.monotonic() < until:
        pass  # they are taken out in the background
    assert settled_keys(kept) <= before


def test_stores_without_a_connection_of_their_own(tmp_path: Path) -> None:
    for store in (dist.HashStore(), dist.FileStore(str(tmp_path / "store"), 2)):
        said = at_once([RankExchange(store, rank, 2) for rank in range(2)], turns=3)
        assert [gathered.values for gathered in said] == [{0: b"0", 1: b"1"}] * 2


def all_meet_and_miss_one(meetings: list[RankExchange]) -> None:
    said = at_once(meetings, turns=2)
    everything = {here.rank: b"%d" % here.rank for here in meetings}
    assert all(gathered.values == everything for gathered in said)

    without = [here for here in meetings if here.rank != 37]
    assert {gathered.missing for gathered in at_once(without, timeout_s=8)} == {(37,)}


def test_dozens_of_ranks_meet_and_miss_the_same_one() -> None:
    store = dist.HashStore()

    all_meet_and_miss_one([RankExchange(store, rank, 64) for rank in range(64)])


@pytest.mark.live
def test_hundreds_of_ranks_on_one_server() -> None:
    kept, world = server(), 200
    with ThreadPoolExecutor(world) as several:  # a connection takes long where names of hosts cannot be looked up
        all_meet_and_miss_one(
            list(several.map(lambda rank: RankExchange(client(kept.port), rank, world), range(world)))
        )


def test_who_has_failed_ends_the_turn_for_all() -> None:
    kept = server()
    meetings = [RankExchange(client(kept.port), rank, 3) for rank in range(3)]
    found: list[GatheredValues] = []
    waiting = threading.Thread(target=lambda: found.append(meetings[0].gather("end", b"ok", timeout_s=30)))
    waiting.start()
    while meetings[1].poll("end/1/0") is None:
        time.sleep(0.01)
    meetings[1].abort_turn("end", b"failed")
    waiting.join(30)

    assert found[0].values == {0: b"ok", 1: b"failed"}
    assert meetings[2].gather("end", b"ok", timeout_s=1).missing == (2,)


def test_too_much_to_tell_is_refused_and_too_much_in_all_left_out() -> None:
    with pytest.raises(UsageError, match="at most 65536"):
        RankExchange(dist.HashStore(), 0, 2).gather("big", bytes(1 << 17), timeout_s=1)
    values = {rank: bytes([rank]) * (1 << 19) for rank in range(4)}
    said, missing, left_out = packed.unpack(packed.pack(values, 5).encode())
    assert (list(said), missing, left_out) == ([0, 1], (4,), (2, 3))


def test_without_a_group_there_is_no_meeting() -> None:
    assert current_exchange() is None
