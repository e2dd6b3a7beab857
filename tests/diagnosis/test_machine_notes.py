"""What the machine did stands in the verdict where the rank that is waited for sits, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cases.make_machine import HOT, computing
from tests.machine_samples import UUID, card, rank
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Finding

BOTH = [rank(0), rank(1)]
STRANGER = {"pid": 9001, "user": "another", "uid": 1007, "uuid": UUID.format(1), "card_mem": 30 << 30}
FULL = {"/c": {"use": "checkpoints", "free": 1 << 20, "size": 1 << 40}}


def first_of(row: Mapping[str, Any], folder: Path, **process: Any) -> Finding:
    """The verdict on a job in which rank 0 computes and rank 1 waits for it."""
    job = computing(row)
    if process:
        job.process(0, **process)
    for name, content in job.inputs().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return diagnose(build_facts(read_evidence([str(folder)]))).findings[0]


@pytest.mark.parametrize(
    ("row", "unsaid"),
    [
        ({"cards": [card(0), card(1, **HOT)], "ranks": BOTH}, "is throttled"),
        ({"cards": [card(0), card(1)], "ranks": BOTH, "others": [STRANGER]}, "9001"),
        ({"ranks": [rank(0), rank(1, blocked=1)]}, "read or write"),
        ({"ranks": BOTH, "pressure": {"io": {"some": 0.97}}}, "stalled on disks"),
        ({"ranks": BOTH, "space": FULL}, "is full"),
    ],
    ids=["a hot card", "a stranger", "a write", "pressure", "a full disk"],
)
def test_what_holds_up_only_those_that_wait_or_nobody_is_not_said(
    row: Mapping[str, Any], unsaid: str, tmp_path: Path
) -> None:
    first = first_of(row, tmp_path)

    assert first.ranks == (0,)
    assert unsaid not in " ".join(map(str, first.because))


def test_of_a_stopped_rank_the_card_is_no_reason(tmp_path: Path) -> None:
    first = first_of({"cards": [card(0, **HOT), card(1)], "ranks": BOTH}, tmp_path, state="T")

    assert (first.cause.value, first.ranks) == ("rank-frozen", (0,))
    assert "is throttled" not in " ".join(map(str, first.because))


def test_a_sign_is_said_once_with_its_line_and_remedy(tmp_path: Path) -> None:
    first = first_of({"cards": [card(0, **HOT), card(1)], "ranks": BOTH}, tmp_path)

    assert sum("is throttled" in str(line) for line in first.because) == 1
    assert sum(item.source.path.endswith("series.jsonl") for item in first.evidence) == 1
    assert str(first.remedies[0].title).startswith("Cool or replace GPU 0")
