from __future__ import annotations

import pytest

from unhang.errors import KnowledgeError
from unhang.knowledge.job import versions
from unhang.knowledge.job.versions import (
    TimeoutRow,
    rows_affecting,
    rows_fixed_in,
    timeouts_with_default,
    version_matches,
    version_numbers,
    version_rows,
)
from unhang.knowledge.tables import read_rows


@pytest.mark.parametrize(
    ("conditions", "version", "holds"),
    [
        (">=2.6.0, <2.11", "2.10.1", True),
        (">=2.6.0, <2.11", "2.11.0", False),
        ("==2.7.0", "2.7", True),
        ("==2.7.0", "2.7.1+cu128", False),
        ("==2.19.*", "2.19.4", True),
        ("==2.1.*", "2.19.4", False),
        ("<2.10", "2.9.1", True),
        ("", "0.1", True),
        (">=2.23, <=2.26.2", "2.26.2", True),
    ],
)
def test_conditions_compare_numbers_not_letters(conditions: str, version: str, holds: bool) -> None:
    numbers = version_numbers(version)
    assert numbers is not None
    assert version_matches(conditions, numbers) is holds


@pytest.mark.parametrize("broken", ["~=2.1", "2.1", ">=2.*", "== latest"])
def test_a_condition_that_cannot_be_read_is_our_mistake(broken: str) -> None:
    with pytest.raises(KnowledgeError, match="not a condition"):
        version_matches(broken, (2,))


def test_every_row_has_a_source_and_what_confirms_it() -> None:
    for row in version_rows():
        assert row.source.strip(), row.symptom
        assert row.confirmed_by, row.symptom
        assert (row.kind == "unverified") == (row.confirmed_by == "nothing"), row.symptom


def test_a_release_finds_its_own_defects_only() -> None:
    assert any("device_id" in row.symptom for row in rows_affecting("torch", "2.7.0", ("bad",)))
    assert not any("device_id" in row.symptom for row in rows_affecting("torch", "2.7.1", ("bad",)))
    assert any(row.nccl == "2.29.7" for row in rows_affecting("torch", "2.13.0+cpu", ("fact",)))
    assert rows_affecting("torch", "nightly") == ()


def test_every_limit_has_a_source_and_says_its_default() -> None:
    for row in read_rows("timeouts.toml", "timeout", TimeoutRow):
        assert row.source.strip(), row.component
        assert row.default, row.component
        assert row.default_s is None or row.default_s > 0, row.component


def test_a_limit_in_a_log_names_where_it_may_come_from() -> None:
    assert "transformers Trainer" in {row.component for row in timeouts_with_default(1800)}
    assert timeouts_with_default(601) == ()


def test_a_release_that_fixed_or_preceded_a_defect_has_it_not_and_the_one_that_brought_it_has() -> None:
    for row in version_rows():
        told = ((row.introduced, True), (row.fixed, False), (row.last_good, False))
        for release, has_it in told:
            if release:
                assert (row in rows_affecting(row.package, release)) is has_it, (row.symptom, release)


@pytest.mark.parametrize(
    ("table", "contradicts"),
    [
        ({"introduced": "2.0", "fixed": "2.1"}, False),
        ({"introduced": "2.1", "fixed": "2.0"}, True),
        ({"fixed": "2.1", "affects": "<2.2"}, True),
        ({"introduced": "2.0", "last_good": "2.0"}, True),
        ({"fixed": "when it is ready"}, True),
    ],
)
def test_a_row_that_contradicts_itself_is_our_mistake(
    table: dict[str, str], contradicts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"package": "p", "kind": "bad", "symptom": "s", "confirmed_by": "c", "source": "s", "checked": "today"}
    monkeypatch.setattr(
        "unhang.knowledge.job.versions.read_rows", lambda *_: (versions.VersionRow(**{**row, **table}),)
    )
    load = versions.version_rows.__wrapped__

    if contradicts:
        with pytest.raises(KnowledgeError, match=r"contradict|not a condition"):
            load()
    else:
        assert load()[0].affects == ">=2.0, <2.1"


def test_the_way_out_of_a_defect_is_known_by_its_release() -> None:
    assert any("2.7.1" in row.fixed for row in rows_fixed_in("torch", "2.7.1+cu128"))
    assert any(row.last_good == "4.49.0" for row in rows_fixed_in("transformers", "4.49.0"))
    assert rows_fixed_in("transformers", "4.50.0") == ()
