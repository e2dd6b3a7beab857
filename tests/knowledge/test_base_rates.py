"""Shares of causes: they add up, follow what is counted, fall back on studies, and are better than no situation."""

from __future__ import annotations

import pytest
from benchmarks import known_incidents

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge import base_rates
from unhang.knowledge.base_rates import before_counting, shares, studies
from unhang.knowledge.incidents import Incident, Situation, incidents
from unhang.knowledge.tables import typed


def incident(number: int, cause: Cause, **situation: object) -> Incident:
    return Incident(
        id=f"a-{number}",
        link=f"https://example.org/{number}",
        year=2026,
        cause=cause,
        signs=("a sign",),
        happened="something",
        fixed="something",
        established="fix",
        **situation,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("situation", [Situation(), Situation(phase="start"), *incidents()[::20]])
def test_shares_of_all_causes_add_up_to_one_the_largest_first(situation: Situation) -> None:
    told = shares(situation)

    assert set(told) == set(Cause) - {Cause.UNKNOWN}
    assert sum(told.values()) == pytest.approx(1)
    assert list(told.values()) == sorted(told.values(), reverse=True)
    assert min(told.values()) > 0


def test_what_is_counted_in_a_situation_leads_there_and_not_elsewhere() -> None:
    rows = [incident(n, Cause.SINGLE_RANK_WORK, phase="evaluation", operation="barrier") for n in range(20)]
    rows += [incident(n, Cause.NETWORK_CONFIG, phase="start", operation="init") for n in range(20, 40)]

    assert next(iter(shares(Situation(phase="evaluation"), rows))) is Cause.SINGLE_RANK_WORK
    assert next(iter(shares(Situation(phase="start", operation="init"), rows))) is Cause.NETWORK_CONFIG


def test_what_is_not_known_or_was_never_met_takes_no_part() -> None:
    rows = [incident(1, Cause.GPU_OOM, phase="steps"), incident(2, Cause.RENDEZVOUS, phase="start")]

    assert shares(Situation(nodes="many", framework=("never-met",)), rows) == shares(Situation(), rows)


def test_without_incidents_the_studies_divide_the_part_of_their_causes() -> None:
    told = shares(Situation(phase="steps"), [])

    assert told == pytest.approx(dict(before_counting()))
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
        typed("base_rates.toml", base_rates.File, "checked = 2026-11-23")


def test_the_situation_tells_more_than_the_causes_alone() -> None:
    asked, alone = known_incidents.shares(), known_incidents.marginal()

    assert asked.log_loss < alone.log_loss - 0.3
    assert asked.first > 1.5 * alone.first
    assert asked.among_three > 1.3 * alone.among_three


def test_the_pseudo_incidents_are_about_as_many_as_fare_best() -> None:
    own = known_incidents.shares().log_loss
    fewer, more = (known_incidents.shares(base_rates.PSEUDO * factor).log_loss for factor in (0.25, 4))

    assert own < fewer
    assert own < more
