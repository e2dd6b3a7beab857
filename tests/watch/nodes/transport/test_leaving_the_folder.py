"""The folder where watchers met is taken away by who leaves last, and nothing that is not ours goes with it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from unhang.watch.nodes.transport.folder_exchange import GONE_S, FolderExchange
from unhang.watch.nodes.transport.key_value_exchange import ExchangeError, shared_token


@pytest.fixture
def meet(tmp_path: Path) -> Path:
    return tmp_path / "meet"


def joined(meet: Path, number: int, count: int = 3) -> FolderExchange:
    place = FolderExchange(meet, count)
    shared_token(meet)
    place.take_seat(number, f"h{number}")
    place.put(f"d/{number}", b"a digest")
    return place


def test_who_leaves_last_takes_it_away(meet: Path) -> None:
    first, second = joined(meet, 0), joined(meet, 1)
    second.put("e/1/0", b"evidence")
    first.get(["d/2", "w/2"])  # asked for what node 2, which never came, might say

    second.leave()
    assert (meet / "d-0").exists()

    first.leave()
    assert not meet.exists()


def test_who_died_without_a_word_is_not_waited_for(meet: Path) -> None:
    first, _dead = joined(meet, 0), joined(meet, 1)
    long_ago = time.time() - GONE_S - 5
    os.utime(meet / "d-1", (long_ago, long_ago))

    first.leave()

    assert not meet.exists()


def test_what_is_not_ours_stays(meet: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "weights.pt").write_bytes(b"x")
    place = joined(meet, 0)
    (meet / "notes.txt").write_text("mine")
    (meet / "e-7-0").symlink_to(tmp_path / "precious" / "weights.pt")
    (meet / "d-9").mkdir()

    place.leave()

    assert sorted(path.name for path in meet.iterdir()) == ["d-9", "e-7-0", "notes.txt"]
    assert (tmp_path / "precious" / "weights.pt").read_bytes() == b"x"


def test_a_start_that_came_meanwhile_keeps_its_folder(meet: Path) -> None:
    """The same job is started again before the last watcher of the first start has left."""
    late = joined(meet, 0)
    for path in meet.iterdir():
        path.unlink()
    meet.rmdir()
    with pytest.raises(ExchangeError):
        late.put("d/0", b"into nothing")
    token = shared_token(_made(meet))
    again = joined(meet, 1)

    assert late.moved()
    late.leave()

    assert shared_token(meet) == token
    assert not again.moved()
    assert again.get(["d/1"]) == {"d/1": b"a digest"}


def test_who_comes_back_has_not_left(meet: Path) -> None:
    first, second = joined(meet, 0), joined(meet, 1)
    second.leave()

    joined(meet, 1)
    first.leave()

    assert (meet / "d-1").exists()


def _made(meet: Path) -> Path:
    FolderExchange(meet, 3)
    return meet
