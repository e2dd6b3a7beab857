"""Imports a program can do without: they are no gap, unless everything that would stand in for them is absent too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program.marks import marks_of
from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import PlannedJob

PROGRAMS = sorted((Path(__file__).with_name("programs") / "optional").glob("*.py"))


@pytest.mark.parametrize("file", [path for path in PROGRAMS if path.name != "here.py"], ids=lambda path: path.stem)
def test_what_a_program_needs_is_a_gap_and_what_it_goes_on_without_is_none(file: Path) -> None:
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(file.parent)
    (_, result), _ = collect_program.collect(machine, PlannedJob(("python", file.name)))
    assert result.found is not None

    marks = list(marks_of(file.read_text()))
    assert marks != []
    assert [f"absent {name}" for name in result.found.absent] == [words for _, words in marks if words]
