"""A log that tells no cause, with the program beside it: what its source makes possible stands among the candidates."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Candidate, Cause, Certainty, Verdict

TIMEOUT = (
    "[rank{rank}]:[E1009 08:53:20.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn={elements}, NumelOut={elements}, "
    "Timeout(ms)=1800000) ran for 1800012 milliseconds before timing out.\n"
)
PROGRAM = """\
import random
from random import shuffle
import numpy as np
import torch
from datasets import load_dataset
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, random_split

rows = list(range(1000))
SPLIT
loader = DataLoader(train, batch_size=4)
for batch in loader:
    step(batch)
"""
UNSEEDED = [
    "train, val = train_test_split(rows, test_size=0.1)",
    "train, val = random_split(rows, [900, 100])",
    "train = load_dataset('x')['train'].train_test_split(test_size=0.1)['train']",
    "train = [rows[i] for i in np.random.permutation(1000)[:900]]",
    "train = random.sample(rows, 900)",
]
SEEDED = [
    "train, val = train_test_split(rows, test_size=0.1, random_state=7)",
    "train, val = random_split(rows, [900, 100], generator=torch.Generator().manual_seed(7))",
    "torch.manual_seed(7); train, val = random_split(rows, [900, 100])",
    "train = rows[:900]",
]


def verdict_on(folder: Path, split: str, *, position: int = 41, elements: int = 4096) -> Verdict:
    text = PROGRAM.replace("SPLIT", split)
    (folder / "train.py").write_text(text, encoding="utf-8")
    line = TIMEOUT.format(rank=0, elements=elements).replace("SeqNum=41", f"SeqNum={position}")
    (folder / "rank0.log").write_text(line, encoding="utf-8")
    return diagnose(build_facts(read_evidence([str(folder / "rank0.log"), str(folder / "train.py")])))


def uneven(verdict: Verdict) -> Candidate | None:
    return next((c for c in verdict.differential if c.cause is Cause.UNEVEN_DATA), None)


@pytest.mark.parametrize("split", UNSEEDED)
@pytest.mark.parametrize(("position", "elements"), [(1, 1), (41, 4096), (90_000, 1)])
def test_a_split_without_a_seed_is_a_candidate_with_its_place(
    tmp_path: Path, split: str, position: int, elements: int
) -> None:
    verdict = verdict_on(tmp_path, split, position=position, elements=elements)
    candidate = uneven(verdict)

    assert candidate is not None
    assert any("train.py:10 " in str(reason) for reason in candidate.because)
    assert candidate.how
    assert verdict.findings[0].certainty is Certainty.POSSIBLE


@pytest.mark.parametrize("split", [*SEEDED, "train = rows; loader = DataLoader(train, shuffle=True)"])
def test_a_split_with_a_seed_is_not_spoken_of(tmp_path: Path, split: str) -> None:
    candidate = uneven(verdict_on(tmp_path, split))

    assert candidate is None or not any("train.py" in str(reason) for reason in candidate.because)
