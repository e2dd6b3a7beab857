"""Lines that a launch never comes to: programs with what is left out of them as marks (``tests/program/marks.py``).

``options``: by the options of each parser; ``files``: by configuration files beside them; ``hydra``: by its
configuration; ``names``: by names that hold the options; ``assigned``: by what the program puts on them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program.marks import LAUNCH, findings_of, marks_of
from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import PlannedJob

PROGRAMS = Path(__file__).with_name("programs")


def launches() -> Iterator[tuple[Path, str]]:
    for file in sorted(PROGRAMS.glob("*/*.py")):
        for command in LAUNCH.findall(file.read_text()) or [f"torchrun {file.name}"]:
            yield file, command


@pytest.mark.parametrize(("file", "command"), list(launches()), ids=str)
def test_what_is_marked_is_left_out_and_nothing_else(file: Path, command: str) -> None:
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(file.parent)
    (_, result), _ = collect_program.collect(machine, PlannedJob(tuple(command.split())))
    assert result.found is not None
    live, whole = (texts[0].text.splitlines() for texts in (result.found.files, result.found.whole))

    assert any(marks_of(file.read_text()))
    left_out = [
        line for line, (kept, was) in enumerate(zip(live, whole, strict=True), 1) if kept.strip() != was.strip()
    ]
    assert left_out == [line for line, words in findings_of(file.read_text(), command) if words == "left out"]
