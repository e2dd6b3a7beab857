"""Rows of many ranks in one line come back as they were; two lines become one; what does not fit is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unhang.wire.documents.rank_series import MAX_ROWS, ColumnBlock, merge_blocks, pack_rows, unpack_rows

small, times = st.integers(0, 1 << 40), st.integers(0, 10**9)
seen = st.tuples(st.integers(0, 9), st.sampled_from(["data", "compute"]), st.booleans(), st.integers(1, 99))
row = st.fixed_dictionaries(
    {
        **dict.fromkeys(("rank", "attempt", "step", "steps", "calls", "calls_a_step", "looks", "waits"), small),
        **{name: times.map(lambda number: number / 1000) for name in ("took_s", "longest_s")},
        **{name: times.map(lambda number: number / 10) for name in ("at_s", "for_s")},
        "doing": st.lists(seen, max_size=3).map(tuple),
    }
)


def stretch_of(rows: list[dict[str, Any]]) -> ColumnBlock:
    return msgspec.json.decode(json.dumps(pack_rows(rows)["stretch"]), type=ColumnBlock)


@given(st.lists(row, min_size=1, max_size=6))
def test_rows_come_back_as_they_were(rows: list[dict[str, Any]]) -> None:
    assert list(unpack_rows(stretch_of(rows))) == rows


def plain(rank: int, **parts: Any) -> dict[str, Any]:
    """A row of a rank that steps."""
    named = {"rank": rank, "attempt": 0, "at_s": 100.5, "step": 40, "steps": 4, "took_s": 2.0, "longest_s": 0.6}
    more = {"for_s": 2.0, "calls": 120, "calls_a_step": 3, "looks": 8, "waits": 2}
    return {**named, **more, "doing": ((1, "compute", False, 6), (2, "communication", True, 2)), **parts}


def test_a_thousand_ranks_that_are_alike_take_little() -> None:
    assert len(json.dumps(pack_rows([plain(rank) for rank in range(1_000)]))) < 500


def test_two_lines_become_one_with_sums_and_the_later_state() -> None:
    first = stretch_of([plain(rank) for rank in (3, 4, 9)])
    later = {"at_s": 102.5, "step": 44, "calls": 132, "longest_s": 0.4, "doing": ((1, "compute", False, 8),)}
    second = stretch_of([plain(rank, **later) for rank in (3, 4)] + [plain(9, **{**later, "longest_s": 1.9})])

    found = merge_blocks(first, second, 2)

    assert found is not None
    one, _, other = unpack_rows(msgspec.convert(found["stretch"], ColumnBlock))
    assert (one["rank"], one["step"], one["steps"], one["took_s"], one["looks"]) == (3, 44, 8, 4.0, 16)
    assert (one["longest_s"], other["longest_s"], other["rank"]) == (0.6, 1.9, 9)
    assert one["doing"] == ((1, "compute", False, 14), (2, "communication", True, 2))


@pytest.mark.parametrize("change", [{"attempt": 1}, {"step": 39}, {"rank": 5}])
def test_lines_of_other_ranks_or_of_a_new_start_do_not_become_one(change: dict[str, int]) -> None:
    assert merge_blocks(stretch_of([plain(3)]), stretch_of([{**plain(3), **change}]), 8) is None


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": MAX_ROWS + 1},
        {"step": [0, 1]},
        {"step": []},
        {"doing": 7},
        {"doing": -1},
        {"mixes": []},
        {"took_s": 10**400},
        {"step": [0, 0, -(10**400), 0]},
    ],
)
def test_columns_that_do_not_fit_together_are_refused(change: dict[str, Any]) -> None:
    wrong = msgspec.convert({**pack_rows([plain(rank) for rank in range(3)])["stretch"], **change}, ColumnBlock)

    with pytest.raises(ValueError, match=r"rows|length|mix|number"):
        list(unpack_rows(wrong))
