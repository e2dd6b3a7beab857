"""First-sight figures are what was found when a batch was scored, on the batch that was scored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from benchmarks import first_sight
from benchmarks.corpus import Answer

SCORED = first_sight.scores()


@pytest.mark.parametrize("row", SCORED, ids=lambda row: row["batch"])
def test_a_scored_batch_and_its_peer_are_as_they_were(row: dict[str, object]) -> None:
    assert first_sight.digest(first_sight.BATCHES / str(row["batch"])) == row["sha256"]
    assert hashlib.sha256(first_sight.PEER.read_bytes()).hexdigest() == row["peer_sha256"]


@pytest.mark.parametrize("row", SCORED, ids=lambda row: row["batch"])
def test_the_figures_are_those_of_the_answers(row: dict[str, object]) -> None:
    answers = row["answers"]
    assert isinstance(answers, dict)
    cases = first_sight.read_batch(first_sight.BATCHES / str(row["batch"]))
    pairs = [(case, _answer(answers[case.id])) for case in cases]

    assert first_sight.figures(pairs) == row["ours"]


def _answer(told: list[object]) -> Answer:
    *causes, certainty, ranks = told
    assert isinstance(ranks, list)
    return Answer(tuple(map(str, causes)), str(certainty), frozenset(ranks))


def test_no_batch_is_scored_twice() -> None:
    assert len({row["batch"] for row in SCORED}) == len(SCORED)
    assert len({row["sha256"] for row in SCORED}) == len(SCORED)


def test_a_scored_batch_and_a_known_thread_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_sight, "_git", lambda *_: "")
    monkeypatch.setattr(first_sight, "SCORES", tmp_path / "scores.jsonl")
    monkeypatch.setattr(first_sight, "BATCHES", tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        case = {"id": name, "url": "https://example.org/1", "cause": None, "accept": [], "culprit_ranks": None}
        case |= {"kind": "open", "scored": True, "log": "a.log"}
        (tmp_path / name / "cases.jsonl").write_text(json.dumps(case) + "\n")
    cases = first_sight.read_batch(tmp_path / "one")

    with pytest.raises(first_sight.RefusedError, match="seen before"):
        first_sight.refuse_what_was_seen(tmp_path / "one", cases)

    (tmp_path / "two" / "cases.jsonl").unlink()
    first_sight.refuse_what_was_seen(tmp_path / "one", cases)
    row = {"batch": "one", "sha256": first_sight.digest(tmp_path / "one")}
    (tmp_path / "scores.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(first_sight.RefusedError, match="scored before"):
        first_sight.refuse_what_was_seen(tmp_path / "one", cases)
