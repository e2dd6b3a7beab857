from __future__ import annotations

import re

import pytest

from unhang.knowledge.job.environment_variables import similar_names, variable, variables

ROWS = variables()


def test_every_row_says_who_reads_it_what_it_does_and_where_that_stands() -> None:
    assert len(ROWS) >= 480
    for row in ROWS:
        assert row.owner, row.name
        assert row.effect.strip(), row.name
        assert row.source.strip(), row.name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row.checked), row.name


def test_names_are_unique_whatever_their_case() -> None:
    assert len({row.name.upper() for row in ROWS}) == len(ROWS)
    assert variable("nccl_debug") is variable(" NCCL_DEBUG ")


def test_a_name_nothing_reads_says_so_and_names_no_span() -> None:
    unread = [row for row in ROWS if row.status == "unread"]
    assert "NCCL_TIMEOUT" in {row.name for row in unread}
    for row in unread:
        assert row.owner == "nobody", row.name
        assert not row.since, row.name
        assert not row.until, row.name


def test_a_renamed_variable_names_its_successor() -> None:
    for row in ROWS:
        if row.status == "renamed":
            assert row.until, row.name
            assert row.replacement, row.name
    old = variable("NCCL_BLOCKING_WAIT")
    assert old is not None
    assert old.replacement == "TORCH_NCCL_BLOCKING_WAIT"


def test_defaults_stand_in_the_order_of_versions() -> None:
    timeout = variable("NCCL_IB_TIMEOUT")
    assert timeout is not None
    assert [(item.since, item.value) for item in timeout.defaults] == [
        ("2.3.5", "14"),
        ("2.14.3", "18"),
        ("2.23.4", "20"),
    ]


def test_guesses_are_marked() -> None:
    guesses = [row for row in ROWS if row.guess]
    assert len(guesses) > 50
    assert all(row.owner.startswith("nccl") for row in guesses)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"),
        ("nccl_debg", "NCCL_DEBUG"),
    ],
)
def test_a_misspelt_name_finds_its_neighbour(wrong: str, right: str) -> None:
    assert variable(wrong) is None
    assert similar_names(wrong)[0] == right
