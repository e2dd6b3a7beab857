from __future__ import annotations

from pathlib import Path
from typing import get_args

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.knowledge.hardware import Kind, XidRow, xid_row
from unhang.knowledge.tables import read_rows
from unhang.knowledge.terms import advice

ROWS = read_rows("xid.toml", "xid", XidRow)


def test_each_row_is_read_from_its_own_example_and_from_no_other(tmp_path: Path) -> None:
    for row in ROWS:
        (tmp_path / f"{row.code}.txt").write_text(f"[165956.669408] {row.example}\n", "utf-8")

    for row in ROWS:
        events = build_facts(read_evidence([str(tmp_path / f"{row.code}.txt")])).events_of("k.xid")
        assert [event.values["xid"] for event in events] == [row.code], row.example


def test_the_rows_are_in_order_and_say_where_they_come_from() -> None:
    codes = [row.code for row in ROWS]

    assert codes == sorted(set(codes))
    assert len(codes) > 100
    assert all(row.source.startswith("https://") and row.checked for row in ROWS)
    assert {row.kind for row in ROWS} == set(get_args(Kind))


def test_every_kind_says_what_to_do() -> None:
    assert all(advice(f"xid-{kind}") for kind in get_args(Kind))


def test_a_number_that_is_no_code_has_no_row() -> None:
    assert xid_row(9999) is None
