"""A machine's samples are read as far as they can be right; whatever else stands there costs its own line only."""

from __future__ import annotations

import json

import pytest

from tests.machine_samples import card, rank, series
from unhang.evidence.format_detection import FileKind, detect_format
from unhang.findings import Source, Unread
from unhang.wire.documents.machine_series import MAX_LINE, MAX_ROWS, MachineSeries, read_machine_series

SOURCE = Source("run/machine/series.jsonl")
ROW = {"cards": [card(0)], "ranks": [rank(0)], "pressure": {"io": {"some": 0.2, "full": 0.1}}}


def read(raw: bytes) -> MachineSeries:
    found = read_machine_series(raw, source=SOURCE)
    assert isinstance(found, MachineSeries)
    return found


def test_rows_come_with_their_time_and_line() -> None:
    raw = series([ROW, ROW], last_s=1000.0)

    found = read(raw)

    assert detect_format(raw, "series.jsonl").kind is FileKind.MACHINE
    assert [(row.t_s, row.line) for row in found.rows] == [(990.0, 2), (1000.0, 3)]
    assert found.rows[0].cards[0].util == 98
    assert found.rows[0].pressure["io"].some == 0.2
    assert found.unread == ()


def test_a_torn_last_line_costs_only_itself() -> None:
    found = read(series([ROW, ROW], last_s=1000.0)[:-40])

    assert [row.t_s for row in found.rows] == [990.0]
    assert "1 of its lines" in found.unread[0].reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"t_s": -1},
        {"t_s": "now"},
        {"t_s": 1e300},
        {"pressure": {"io": {"some": 7}}},
        {"cards": [{"index": -1}]},
        {"cards": [{"index": 0, "name": "\x1b[2J"}]},
        {"ranks": [{"rank": True}]},
        {"space": {"/a\nb": {}}},
        {"others": [{"pid": 1 << 70}]},
        {"cards": {"0": {}}},
        {"node": "n" * 10_000},
        {"x": "y" * MAX_LINE},
    ],
)
def test_a_value_that_cannot_be_right_costs_its_line(wrong: dict[str, object]) -> None:
    row = json.dumps({"t_s": 999.0, **wrong}).encode() + b"\n"

    found = read(series([ROW], last_s=1000.0) + row)

    assert [r.t_s for r in found.rows] == [1000.0]
    assert len(found.unread) == 1


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n", b"\xff\xfe\x00", b"[]", b'{"schema":"unhang.machine/2"}\n', b'{"schema":7}', b'{"schema":' * 50_000],
)
def test_what_is_no_series_says_so_in_one_sentence(raw: bytes) -> None:
    found = read_machine_series(raw, source=SOURCE)

    assert isinstance(found, Unread)
    assert "is no series of a machine" in found.reason
    assert "\n" not in found.reason


def test_of_a_long_series_the_last_samples_are_kept() -> None:
    found = read(series([{}] * (MAX_ROWS + 20), last_s=1e9))

    assert len(found.rows) == MAX_ROWS
    assert found.rows[-1].t_s == 1e9
