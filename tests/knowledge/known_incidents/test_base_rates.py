"""Shares of causes: they add up, follow what is counted, and fall back on studies."""

from __future__ import annotations

import pytest

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge.known_incidents import base_rates
from unhang.knowledge.known_incidents.base_rates import library_shares, prior_shares, shares_among, studies
from unhang.knowledge.known_incidents.incidents import incidents
from unhang.knowledge.tables import read_typed


def test_shares_of_all_causes_add_up_to_one() -> None:
    told = library_shares()

    assert set(told) == set(Cause) - {Cause.UNKNOWN}
    assert sum(told.values()) == pytest.approx(1)
    assert min(told.values()) > 0


def test_what_is_counted_more_often_has_a_larger_share() -> None:
    rows = [row for row in incidents() if row.cause in (Cause.SINGLE_RANK_WORK, Cause.NETWORK_CONFIG)]
    often = shares_among(rows)

    assert min(often[Cause.SINGLE_RANK_WORK], often[Cause.NETWORK_CONFIG]) > often[Cause.GPU_HARDWARE]


def test_without_incidents_the_studies_divide_the_part_of_their_causes() -> None:
    told = shares_among([])

    assert told == pytest.approx(dict(prior_shares()))
    assert told[Cause.GPU_HARDWARE] > told[Cause.NETWORK_FAULT] > told[Cause.GPU_OOM]
    assert told[Cause.UNEVEN_DATA] == told[Cause.DEADLOCK_ORDER] == pytest.approx(1 / len(told))
    assert told[Cause.GPU_HARDWARE] > 2 / len(told)


def test_the_studies_say_what_each_row_is_and_where_it_stands() -> None:
    assert len({study.id for study in studies()}) == len(studies()) >= 6
    for study in studies():
        assert study.link.startswith("https://"), study.id
        for row in study.rows:
            assert (row.cause is None) != (row.why == ""), (study.id, row.name)


def test_a_study_that_is_not_as_it_must_be_is_named() -> None:
    with pytest.raises(KnowledgeError, match=r"base_rates\.toml: .*study"):
        read_typed("base_rates.toml", base_rates.StudiesFile, "checked = 2026-11-23")
