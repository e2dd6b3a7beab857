"""Watchers meet in a folder or in a store: what was put is read, what others put is not believed, nothing hangs."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.ports import free_port
from unhang.watch.nodes.transport.evidence_pack import pack_evidence, unpack_evidence
from unhang.watch.nodes.transport.evidence_parts import (
    EXIT_EVIDENCE_NUMBER,
    EvidenceAnnouncement,
    EvidenceFetch,
    send_evidence,
)
from unhang.watch.nodes.transport.folder_exchange import FolderExchange
from unhang.watch.nodes.transport.key_value_exchange import (
    MAX_BYTES,
    ExchangeError,
    KeyValueExchange,
    SignedValues,
    shared_token,
    token_from_environment,
)
from unhang.watch.nodes.transport.store_exchange import StoreExchange, is_local_address, is_loopback, watcher_port

pytestmark = pytest.mark.timeout(240)
Opening = Callable[[], KeyValueExchange]


class Prompt(StoreExchange):
    """Its values are there when ``put`` returns: a store takes them without a word."""

    def put(self, key: str, value: bytes) -> None:
        super().put(key, value)
        assert self.get([key]) == {key: value}


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Opens the same place again and again, each time as another node."""
    if request.param == "folder":
        yield lambda: FolderExchange(tmp_path / "meet")
        return
    port = free_port()
    keeper = StoreExchange("127.0.0.1", port, keep=True)
    keeper.take_seat(0, "keeper")
    yield lambda: Prompt("127.0.0.1", port, keep=False)
    keeper.close()


def test_what_one_node_puts_another_reads_anew(place: Opening) -> None:
    here, there = place(), place()

    assert there.get(["d/0", "d/1"]) == {}
    for value in (b"long and first", b"short"):
        here.put("d/0", value)

        assert there.get(["d/0", "d/1"]) == {"d/0": value}


def test_each_node_gets_a_seat_of_its_own_and_the_same_again(place: Opening) -> None:
    seats = [place().take_seat(None, name) for name in ("a", "b", "c")]

    assert len(set(seats)) == 3
    assert place().take_seat(None, "b") == seats[1]
    assert place().take_seat(7, "known") == 7
    assert place().seats() > max(seats)


def test_numbers_without_a_count_are_found_by_who_leads(place: Opening) -> None:
    """Of a start that tells each node its number and nobody how many there are; one of them is missing."""
    leader = place()
    leader.take_seat(0, "a")
    for number, name in ((1, "b"), (3, "d")):
        place().take_seat(number, name)

    assert leader.seats() == 4
    place().take_seat(3, "d")
    assert leader.seats() == 4


def test_many_values_at_once(place: Opening) -> None:
    here = place()
    for node in range(40):
        here.put(f"d/{node}", b"%d" % node)

    assert len(place().get([f"d/{node}" for node in range(60)])) == 40


def test_only_values_with_our_seal_count(place: Opening) -> None:
    ours, stranger = SignedValues(place(), "token", "job"), SignedValues(place(), "another", "job")
    other_job, reader = SignedValues(place(), "token", "another job"), SignedValues(place(), "token", "job")
    stranger.put("d/1", b"forged")
    other_job.put("d/2", b"of another job")
    place().put("d/3", os.urandom(40))
    ours.put("d/4", b"true")

    assert reader.get([f"d/{node}" for node in range(6)]) == {"d/4": b"true"}
    assert reader.refused == 3


def test_a_value_that_is_moved_or_played_again_does_not_count(place: Opening) -> None:
    raw = place()
    ours, reader = SignedValues(place(), "token", "job", started=5), SignedValues(place(), "token", "job")
    ours.put("d/1", b"first")
    first = raw.get(["d/1"])["d/1"]
    ours.put("d/1", b"second")
    assert reader.get(["d/1"]) == {"d/1": b"second"}

    raw.put("d/1", first)
    raw.put("d/2", first)

    assert reader.get(["d/1", "d/2"]) == {}
    again = SignedValues(place(), "token", "job", started=6)
    again.put("d/1", b"after a restart")
    assert reader.get(["d/1"]) == {"d/1": b"after a restart"}


def test_evidence_travels_in_parts_and_only_whole(place: Opening, tmp_path: Path) -> None:
    ours, reader = SignedValues(place(), "token", "job"), SignedValues(place(), "token", "job")
    content = os.urandom(2 * MAX_BYTES + 5)
    fetch = EvidenceFetch(3, [1, 2, 4], tmp_path)

    send_evidence(ours, 1, 3, content)
    send_evidence(ours, 2, 2, b"of an earlier look")
    send_evidence(ours, 4, EXIT_EVIDENCE_NUMBER, b"left behind")
    torn = EvidenceAnnouncement(3, 1, 9, hashlib.sha256(b"something else").digest())
    ours.put("e/5/0", b"torn")
    ours.put("p/5", msgspec.msgpack.encode(torn))
    fetch.tick(reader)

    assert fetch.came == {1, 4}
    assert (tmp_path / "1.zip").read_bytes() == content


def test_a_store_that_dies_is_an_error() -> None:
    """Without a limit of ours it is one too, after five minutes: longer than a test may take."""
    port = free_port()
    keeper = StoreExchange("127.0.0.1", port, keep=True)
    guest = StoreExchange("127.0.0.1", port, keep=False, limit_s=5.0)
    guest.put("d/1", b"x")
    keeper.close()
    del keeper

    with pytest.raises(ExchangeError):
        guest.get(["d/1"])
    with pytest.raises(ExchangeError):
        StoreExchange("127.0.0.1", port, keep=False, limit_s=1.0)


def test_a_store_listens_on_the_address_it_was_given_and_on_no_other() -> None:
    port = free_port()
    keeper = StoreExchange("127.0.0.1", port, keep=True)

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=30).close()
    socket.create_connection(("127.0.0.1", port), timeout=30).close()
    keeper.close()


def test_addresses() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert not is_loopback("192.0.2.7")
    assert is_local_address("127.0.0.1")
    assert not is_local_address("192.0.2.7")
    assert watcher_port("a job") == watcher_port("a job") < 32768


def test_the_token_of_a_folder_is_made_once_and_private(tmp_path: Path) -> None:
    FolderExchange(tmp_path / "meet")

    token = shared_token(tmp_path / "meet")

    assert len(token) >= 16
    assert shared_token(tmp_path / "meet") == token
    assert (tmp_path / "meet" / "token").stat().st_mode & 0o077 == 0
    assert (tmp_path / "meet").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in (tmp_path / "meet").iterdir()) == ["token"]


def test_a_token_that_could_be_guessed_is_none() -> None:
    assert token_from_environment({"UNHANG_TOKEN": "secret"}) == ""
    assert token_from_environment({"UNHANG_TOKEN": "0123456789abcdef"}) == "0123456789abcdef"


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ExchangeError):
        FolderExchange(tmp_path / "file" / "meet")


def test_packed_evidence_comes_back_with_times_of_our_clock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "stacks").mkdir(parents=True)
    (folder / "stacks" / "rank_3.txt").write_text("Thread 1")
    (folder / "secret.txt").write_text("not evidence")
    files = ["stacks/rank_3.txt", "source/train.py", "nccl/rank_3.a host.log"]
    manifest = {"schema": "unhang.bundle/1", "taken_s": 1300.0, "processes": [{"rank": 3, "ended_s": 1290.0}]}
    (folder / "bundle.json").write_bytes(msgspec.json.encode(manifest | {"files": files}))

    pack_evidence(folder, tmp_path / "pack.zip")
    assert unpack_evidence(tmp_path / "pack.zip", tmp_path / "came", ahead_s=300.0)

    came = msgspec.json.decode((tmp_path / "came" / "bundle.json").read_bytes())
    assert (came["taken_s"], came["processes"][0]["ended_s"]) == (1000.0, 990.0)
    assert (tmp_path / "came" / "stacks" / "rank_3.txt").exists()
    assert not (tmp_path / "came" / "secret.txt").exists()
    assert came["files"] == ["stacks/rank_3.txt"]  # nobody misses there what is not sent


def test_a_pack_may_hold_anything(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "hostile.zip", "w") as archive:
        archive.writestr("bundle.json", b"[" * 100_000)
        archive.writestr("../../outside", b"x")
        archive.writestr("stacks/../../../outside", b"x")
        archive.writestr("/etc/outside", b"x")
    (tmp_path / "torn.zip").write_bytes((tmp_path / "hostile.zip").read_bytes()[:100])

    unpack_evidence(tmp_path / "hostile.zip", tmp_path / "a" / "b" / "c" / "came", ahead_s=5.0)

    assert not list(tmp_path.rglob("outside"))
    assert not unpack_evidence(tmp_path / "torn.zip", tmp_path / "torn", ahead_s=0.0)
    assert not unpack_evidence(tmp_path / "missing.zip", tmp_path / "missing", ahead_s=0.0)
