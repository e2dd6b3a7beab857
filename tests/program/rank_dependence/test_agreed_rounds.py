"""Whether a collective decides how often a loop runs."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.rank_dependence.agreed_rounds import agreeing_call

HELPED = """\
def steps_for_all(rows):
    shared = torch.tensor([rows])
    dist.all_reduce(shared, op=MIN)
    return int(shared.item())

def main():
    steps = min(steps_for_all(rows), 40)
    for step in range(steps):
        train()
"""
BESIDE = """\
def main():
    count = torch.tensor([len(loader)])
    dist.all_reduce(count, op=MIN)
    steps = int(count.item())
    for step in range(steps):
        train()
"""
OWN = """\
def main():
    loss = torch.zeros(1)
    dist.all_reduce(loss)
    dist.barrier()
    steps = len(loader)
    for step in range(steps):
        train()
"""
PRINTED = """\
def report(loss):
    dist.all_reduce(loss)

def main():
    report(loss)
    for batch in loader:
        train()
"""


def at(text: str) -> int | None:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("for "))
    return agreeing_call(SourceFile(Source("train.py"), "train.py", text), line)


@pytest.mark.parametrize(("text", "line"), [(HELPED, 3), (BESIDE, 3), (OWN, None), (PRINTED, None)])
def test_the_collective_that_decides_the_rounds(text: str, line: int | None) -> None:
    assert at(text) == line


def test_without_source_or_loop_nothing_is_known() -> None:
    assert agreeing_call(None, 3) is None
    assert agreeing_call(SourceFile(Source("t.py"), "t.py", "x = (\n"), 1) is None
    assert agreeing_call(SourceFile(Source("t.py"), "t.py", "x = 1\n"), 1) is None
