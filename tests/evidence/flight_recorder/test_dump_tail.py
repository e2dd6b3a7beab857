"""Reading the end of a dump says the same as the end of the whole dump, and goes back as far as the stall does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.dump_tail import read_tail
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.flight_recorder.ring_window import KEPT_ENTRIES, KEPT_GLOO_ENTRIES
from unhang.evidence.items import RecorderDump, RecorderEntries
from unhang_lab.dump_writer import StalledJob, make_dump, make_entry, make_frames, pickle_like_torch

COLUMNS = [
    "record_id",
    "pg_id",
    "position",
    "is_p2p",
    "state",
    "retired",
    "created_ns",
    "started_ns",
    "completed_ns",
    "timeout_ms",
    "byte",
]


def rows(entries: RecorderEntries, last: int) -> list[tuple[Any, ...]]:
    """The last entries with every table index resolved."""
    table = [
        (
            *tuple(getattr(entries, name)[index].item() for name in COLUMNS),
            entries.group_names[entries.group[index]],
            entries.signatures[entries.signature[index]],
            entries.stacks[entries.stack[index]] if entries.stack[index] >= 0 else None,
        )
        for index in range(len(entries))
    ]
    return table[len(table) - last :]


def both(data: bytes) -> tuple[RecorderDump, RecorderDump]:
    tail, whole = read_recorder_dump(data, source="rank_0"), read_recorder_dump(data, source="rank_0", whole=True)
    assert isinstance(tail, RecorderDump)
    assert isinstance(whole, RecorderDump)
    assert rows(tail.entries, len(tail.entries)) == rows(whole.entries, len(tail.entries))
    assert (tail.status, tail.groups, tail.format_version, tail.backend) == (
        whole.status,
        whole.groups,
        whole.format_version,
        whole.backend,
    )
    return tail, whole


def stalled(count: int, *, behind: int = 1, frames: bool = True, **options: Any) -> bytes:
    sites = [make_frames(site, 6) for site in range(5)]
    entries = [
        make_entry(
            record_id=100 + index,
            position=index + 1,
            frames=sites[index * index % 5] if frames else None,
            operation=options.get("operation", "nccl:all_reduce"),
            state="completed" if index < count - behind else "scheduled",
            created_ns=1_795_000_000_000_000_000 + index * 7_919,
        )
        for index in range(count)
    ]
    return pickle_like_torch(make_dump("2.13", entries, status={"0": (count, -1, count - behind)}))


@pytest.mark.parametrize("frames", [True, False])
def test_a_long_dump_is_read_from_its_end(frames: bool) -> None:
    data = stalled(1000, frames=frames)
    assert read_tail(data, SharedTables()) is not None
    tail, whole = both(data)
    assert len(tail.entries) == KEPT_ENTRIES
    assert not tail.whole
    assert tail.dropped == 1000 - KEPT_ENTRIES
    assert whole.whole
    assert len(whole.entries) == 1000


def test_the_end_reaches_back_to_the_oldest_unfinished_position() -> None:
    tail, _ = both(stalled(1000, behind=300))
    assert tail.entries.position[0] <= 701
    assert len(tail.entries) < 1000


def test_a_group_that_was_silent_for_long_keeps_its_unfinished_position() -> None:
    entries = [make_entry(record_id=0, pg_id=4, group=("4", "PIPELINE"), position=17, state="scheduled")]
    entries += [make_entry(record_id=n, position=n, frames=make_frames(0, 3)) for n in range(1, 800)]
    data = pickle_like_torch(make_dump("2.13", entries, status={"4": (17, -1, 16), "0": (799, -1, 799)}))
    tail, _ = both(data)
    assert tail.whole
    assert tail.entries.pg_id[0] == 4


def test_unfinished_point_to_point_is_kept_with_the_finished_one_before_it() -> None:
    entries = [
        make_entry(
            record_id=n,
            pg_id=2,
            group=("2", "PIPELINE"),
            position=n,
            operation="nccl:send 0->1",
            is_p2p=True,
            state="completed" if n < 150 else "scheduled",
        )
        for n in range(400)
    ]
    data = pickle_like_torch(make_dump("2.13", entries, status={"2": (399, -1, 149)}))
    tail, _ = both(data)
    assert 150 in tail.entries.position.tolist()


def test_gloo_keeps_more_because_its_entries_never_finish() -> None:
    tail, _ = both(stalled(900, operation="gloo:all_reduce", behind=1))
    assert len(tail.entries) == KEPT_GLOO_ENTRIES


def test_short_dumps_are_whole() -> None:
    for count in (1, 2, KEPT_ENTRIES - 1, KEPT_ENTRIES, KEPT_ENTRIES + 1):
        tail, _ = both(stalled(count))
        assert tail.whole
        assert len(tail.entries) == count


def test_texts_that_look_like_opcodes_do_not_mislead() -> None:
    nasty = ["}(h\x10", "q\x20q\x21q\x22", "u.e", "X\x03\x00\x00\x00abcq\x20", "}(" * 20, "entries", "}(h\x00" * 9]
    entries = []
    for index in range(300):
        text = nasty[index % len(nasty)] + ("" if index < 280 else str(index))
        frames = [{"name": text, "filename": nasty[index % 3], "line": index % 400 + 1}, *make_frames(index % 4, 2)]
        entries.append(make_entry(record_id=index, position=index, operation="nccl:" + text, frames=frames))
    both(pickle_like_torch(make_dump("2.13", entries, status={"0": (299, -1, 299)})))


def test_a_dump_torn_at_its_end_still_gives_its_end() -> None:
    data = stalled(600)
    for cut in range(len(data) - 700, len(data), 29):
        tail, whole = both(data[:cut])
        assert tail.unread == whole.unread
        assert not tail.whole


def test_synthetic_jobs_of_the_benchmark_read_alike() -> None:
    for _, data in StalledJob(ranks=16, entries=300, frames=4, laggard=3).dumps():
        tail, whole = both(data)
        assert not tail.whole
        assert whole.whole


VALUES = st.text(max_size=12) | st.sampled_from(["nccl:all_reduce", "nccl:send 0->1", "X\x01\0\0\0aq\x14", "}(h\x14"])


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(-1, 2**40),
            VALUES,
            st.sampled_from(["completed", "scheduled", "started"]),
            st.booleans(),
            st.lists(st.tuples(VALUES, st.integers(-5, 70000)), max_size=4),
        ),
        min_size=1,
        max_size=160,
    ),
    st.dictionaries(
        st.sampled_from("0123"), st.tuples(st.integers(-1, 50), st.just(-1), st.integers(-1, 50)), max_size=4
    ),
)
def test_the_end_of_any_dump_equals_the_end_of_the_whole(drawn: list[Any], status: dict[str, Any]) -> None:
    entries = [
        make_entry(
            record_id=index,
            pg_id=pg,
            group=(str(pg), name),
            position=position,
            operation=name,
            state=state,
            is_p2p=p2p,
            frames=[{"name": word, "filename": word + name, "line": line} for word, line in frames],
        )
        for index, (pg, position, name, state, p2p, frames) in enumerate(drawn)
    ]
    both(pickle_like_torch(make_dump("2.13", entries, status=status)))
