"""The first lines of ``unhang check`` name the worst problem and its place; what is fine stays short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import unhang

PROGRAM = """import torch.distributed as dist

def save():
    if dist.get_rank() == 0:
        dist.barrier()

def main():
    dist.init_process_group("gloo")
    save()

main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def test_the_headline_names_the_worst_problem_and_its_place(script: Path) -> None:
    said = unhang("check", "--only", "program", "--", "torchrun", "train.py", folder=script).stdout

    headline = " ".join(said.partition("\n\n")[0].split())
    assert headline.startswith("MISCONFIGURED 1 problem would stop this job")
    assert headline.endswith("only some ranks reach dist.barrier (dist.get_rank() == 0), train.py:4")
    assert "Call chain: main (train.py:11) → save (train.py:9)" in said


def test_the_timeout_is_that_of_the_backend(script: Path) -> None:
    said = unhang("check", "--only", "timers", "--", "torchrun", "train.py", folder=script).stdout

    assert "first timeout: 1,800 s (the default of init_process_group(timeout=))" in " ".join(said.split())


@pytest.mark.parametrize(("words", "shown"), [((), False), (("--verbose",), True)])
def test_details_of_what_is_fine_are_for_whoever_asks(words: tuple[str, ...], shown: bool, script: Path) -> None:
    said = unhang("check", "--only", "storage", *words, folder=script).stdout

    assert ("test files" in said) == shown
    assert ("details: --verbose" in said) != shown
