"""A dump of which only the ends are fetched says what the whole one says, and no byte is fetched twice."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import pytest

from tests.evidence.flight_recorder.test_writers import said
from unhang.errors import ObjectError
from unhang.evidence.flight_recorder.ranged_dump import RangedDump
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.objects.stream import END_BYTES, START_BYTES
from unhang.findings import Unread
from unhang_lab.dump_writer import StalledJob, make_entry, make_frames, pickle_like_torch

NAME = "nccl_trace_rank_1"


class Elsewhere:
    """A dump of which bytes are fetched; each once."""

    def __init__(self, data: bytes, start: int = START_BYTES, end: int = END_BYTES) -> None:
        self.data = data
        self.fetched = bytearray(len(data))
        start, end = min(start, len(data)), min(end, max(0, len(data) - start))
        self.dump = RangedDump(self.fetch(0, start), self.fetch(len(data) - end, len(data)), len(data), self.fetch)

    def fetch(self, first: int, stop: int) -> bytes:
        assert not any(self.fetched[first:stop]), "fetched twice"
        self.fetched[first:stop] = b"\1" * (stop - first)
        return self.data[first:stop]

    @property
    def share(self) -> float:
        return sum(self.fetched) / len(self.data)


@cache
def dumps_of(entries: int) -> tuple[bytes, ...]:
    """The laggard's dump and another rank's."""
    job = StalledJob(ranks=8, entries=entries, frames=10, laggard=1)
    return tuple(data for _, data in job.dumps(2))


@pytest.mark.parametrize("entries", [2_000, 20_000])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_seventh_of_it_says_what_all_of_it_says(entries: int, rank: int) -> None:
    data = dumps_of(entries)[rank]
    elsewhere = Elsewhere(data)

    found = read_recorder_dump(elsewhere.dump, source=NAME)

    assert said(found) == said(read_recorder_dump(data, source=NAME))
    assert elsewhere.share <= 0.15


@pytest.mark.parametrize(("start", "end"), [(4, 1), (64, 64), (300, 5_000), (5_000, 300), (1 << 20, 1)])
@pytest.mark.parametrize("rank", [0, 1])
def test_however_little_was_fetched_first_the_answer_is_the_same(start: int, end: int, rank: int) -> None:
    data = dumps_of(400)[rank]

    found = read_recorder_dump(Elsewhere(data, start, end).dump, source=NAME)

    assert said(found) == said(read_recorder_dump(data, source=NAME))


def test_what_is_stored_late_and_what_was_stored_in_the_middle_is_found() -> None:
    """A checkpoint is saved once, in the middle, and again at the end: its texts stand in neither end."""
    steps = [make_frames(0, 6), make_frames(1, 6)]
    saving = make_frames(7, 6)
    entries: list[dict[str, Any]] = []
    for number in range(3_000):
        frames = saving if number in (1_500, 2_990) else steps[number % 2]
        state = "completed" if number < 2_995 else "scheduled"
        entries.append(make_entry(record_id=number, position=number + 1, frames=frames, state=state))
    last = {"last_enqueued_collective": 3_000, "last_started_collective": 2_995, "last_completed_collective": 2_995}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    data = pickle_like_torch({"version": "2.10", "pg_config": config, "pg_status": {"0": last}, "entries": entries})

    found = read_recorder_dump(Elsewhere(data).dump, source=NAME)

    assert said(found) == said(read_recorder_dump(data, source=NAME))
    assert any("layer_7_forward" in str(stack) for stack in said(found)["stack"])


@pytest.mark.parametrize("how", ["cut", "cut in the first entry", "more keys", "zeros in the middle"])
def test_damaged_ones_and_those_of_others_are_judged_as_the_whole_is(how: str) -> None:
    whole = dumps_of(2_000)[1]
    plain = pickle.loads(whole)
    data = {
        "cut": whole[:-777],
        "cut in the first entry": whole[:700],
        "more keys": pickle_like_torch(plain | {"entries": [one | {"extra": 1} for one in plain["entries"]]}),
        "zeros in the middle": whole[:100_000] + bytes(100_000) + whole[200_000:],
    }[how]

    found, wanted = read_recorder_dump(Elsewhere(data).dump, source=NAME), read_recorder_dump(data, source=NAME)

    if isinstance(wanted, Unread):
        assert found == wanted
    else:
        assert said(found) == said(wanted)
        assert found.unread == wanted.unread


def test_a_store_that_gives_no_more_is_told() -> None:
    def gone(_first: int, _stop: int) -> bytes:
        raise ObjectError("is gone: it was there when its folder was listed")

    data = dumps_of(2_000)[1]

    found = read_recorder_dump(RangedDump(data[:100], data[-100:], len(data), gone), source=NAME)

    assert isinstance(found, Unread)
    assert (found.reason, found.rank) == ("is gone: it was there when its folder was listed", 1)
