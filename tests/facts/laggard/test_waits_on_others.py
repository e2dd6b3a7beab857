"""Ranks that wait for a key in the store or for an actor: who was to answer, and when nothing tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.laggard.waits_on_others import actor_wait, file_lock_cycle, unset_key
from unhang.facts.model import Facts

CASES = Path(__file__).parents[2] / "cases"
KEY = CASES / "rank-conditional-collective" / "hit_a_key_nobody_sets" / "input"
LOCK = CASES / "deadlock-order" / "hit_a_lock_held_by_who_waits_in_a_collective" / "input"
DATABASE = CASES / "deadlock-order" / "hit_a_database_lock_held_by_who_waits" / "input"
ACTOR = CASES / "deadlock-order" / "hit_an_actor_that_waits_for_who_asks" / "input"


def facts(folder: Path, old: str = "", new: str = "") -> Facts:
    """Of a real job, with ``new`` in place of ``old`` in its source."""
    evidence = read_evidence([str(folder)])
    assert all(old in source.text for source in evidence.sources)
    evidence.sources[:] = [replace(source, text=source.text.replace(old, new)) for source in evidence.sources]
    return build_facts(evidence)


def test_who_comes_to_the_line_that_sets_the_key_was_to_set_it() -> None:
    known = facts(KEY)
    found = unset_key(known, known.stalls[0])

    assert found is not None
    assert (found.setters, found.where.line, found.branch and found.branch.test) == ((0,), 23, "rank == 0")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('store.set(f"curriculum', 'store.set(f"weights', id="another key"),
        pytest.param(
            "    if rank == 0:\n        noise = decide", "    if rank == 1:\n        noise = decide", id="not it"
        ),
    ],
)
def test_where_no_rank_that_waits_elsewhere_sets_such_a_key_nobody_is_named(old: str, new: str) -> None:
    known = facts(KEY, old, new)

    assert unset_key(known, known.stalls[0]) is None


def test_an_actor_that_stands_in_a_collective_cannot_answer() -> None:
    known = facts(ACTOR)
    found = actor_wait(known, known.stalls[0])

    assert found is not None
    assert (found.actor, found.method, found.inside) == ("Learner", "count", "learn")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("num_cpus=0.1", "max_concurrency=2", id="it answers several at once"),
        pytest.param("peer.count.remote()", "peer.status.remote()", id="of another class"),
        pytest.param("    def count(self)", "    async def count(self)", id="its methods take turns"),
    ],
)
def test_an_actor_that_may_answer_is_not_blamed(old: str, new: str) -> None:
    known = facts(ACTOR, old, new)

    assert actor_wait(known, known.stalls[0]) is None


def test_who_holds_a_lock_stands_in_the_with_at_which_the_other_waits() -> None:
    known = facts(LOCK)
    found = file_lock_cycle(known, known.stalls[0])

    assert found is not None
    assert found.behind is not None
    assert (found.behind[0], found.behind[1].line) == (39, 44)


def test_who_left_a_function_before_it_lets_go_of_the_lock_is_shown_where() -> None:
    known = facts(DATABASE)
    found = file_lock_cycle(known, known.stalls[0])

    assert found is not None
    assert found.behind is None
    assert found.way_out is not None
    assert (found.way_out[0].line, found.way_out[1]) == (25, 26)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("            return note", "            note = note", id="one way out"),
        pytest.param("        self.db.commit()", "        self.db.total_changes", id="nothing lets go"),
    ],
)
def test_where_nothing_shows_how_it_kept_the_lock_no_line_is_named(old: str, new: str) -> None:
    evidence = read_evidence([str(DATABASE)])
    evidence.sources[:] = [replace(source, text=source.text.replace(old, new)) for source in evidence.sources]
    known = build_facts(evidence)
    found = file_lock_cycle(known, known.stalls[0])

    assert found is not None
    assert (found.behind, found.way_out) == (None, None)
