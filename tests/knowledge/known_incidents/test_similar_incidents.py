"""Incidents that look like what is seen: few, alike above a measured floor, the same each time."""

from __future__ import annotations

import pytest

from benchmarks import known_incidents
from unhang.findings import Cause
from unhang.knowledge.known_incidents.incidents import Incident, StallSituation, incidents
from unhang.knowledge.known_incidents.similar_incidents import (
    MAX_QUERY_WORDS,
    MAX_SHOWN,
    MIN_SIMILARITY,
    incidents_by_similarity,
    incidents_with_words,
    similar_incidents,
)


def ids(rows: list[Incident]) -> list[str]:
    return [row.id for row in rows]


@pytest.mark.parametrize("row", incidents()[::15], ids=lambda row: row.id)
def test_an_incident_is_found_by_its_own_signs(row: Incident) -> None:
    assert row in [found for _, found in incidents_by_similarity(row, " ".join(row.signs))[:MAX_SHOWN]]


def test_messages_find_incidents_of_their_cause() -> None:
    found = similar_incidents(
        StallSituation(phase="start", nodes="many", backend="gloo"),
        "RuntimeError: Gloo connectFullMesh failed with pair.cc connect [127.0.0.1]:40213: Connection refused",
    )

    assert {row.cause for row in found} == {Cause.NETWORK_CONFIG}


def test_what_resembles_nothing_finds_nothing() -> None:
    assert similar_incidents(StallSituation(), "") == []
    assert similar_incidents(StallSituation(), "the loss went up on Tuesday and the learning rate is 3e-4") == []
    assert similar_incidents(StallSituation(backend="nccl", nodes="one"), "training hangs") == []


def test_no_more_than_three_and_always_the_same() -> None:
    words = "Watchdog caught collective operation timeout ALLREDUCE one element rank 0 tokenise barrier 30 minutes"
    found = [ids(similar_incidents(StallSituation(phase="start", operation="barrier"), words)) for _ in range(3)]

    assert 0 < len(found[0]) <= MAX_SHOWN
    assert found[0] == found[1] == found[2]


def test_more_words_of_a_log_do_not_make_it_like_something() -> None:
    own = "socketTryAccept Accept failed Too many open files"
    noise = " ".join({word for row in incidents()[::3] for sign in row.signs for word in sign.split()})
    best = incidents_by_similarity(StallSituation(), f"{own} {noise}")[0][0]
    whole = sum(score for score, _ in incidents_by_similarity(StallSituation(), noise)[:1])

    assert len(noise.split()) > 10 * MAX_QUERY_WORDS
    assert best == pytest.approx(whole, rel=0.25)
    assert best < 3 * MIN_SIMILARITY


def test_of_what_is_shown_at_least_six_of_ten_are_of_the_same_cause_and_less_below_the_floor() -> None:
    shown, lower = known_incidents.similar(), known_incidents.similar(MIN_SIMILARITY - 4)

    assert shown.of_same_cause >= 0.6 * shown.shown
    assert lower.of_same_cause / lower.shown < shown.of_same_cause / shown.shown
    assert shown.asked_and_answered > 0.4 * len(incidents())


def test_words_find_the_incidents_that_hold_all_of_them() -> None:
    assert "gardener-aws-1832" in ids(incidents_with_words("EFA handshake"))
    assert ids(incidents_with_words("handshake tokenise")) == []
    assert all(
        "NCCL_IB_GID_INDEX" in f"{row.signs} {row.happened} {row.fixed}"
        for row in incidents_with_words("nccl_ib_gid_index")
    )
    assert len(incidents_with_words("nccl_ib_gid_index")) == MAX_SHOWN


@pytest.mark.parametrize("words", ["", "nccl", "rank", "…", "-9"])
def test_words_that_stand_everywhere_or_nowhere_find_nothing(words: str) -> None:
    assert incidents_with_words(words) == []
