"""Lines that a launch never comes to: programs with what is left out of them as marks (``tests/program/marks.py``).

``options``: by the options of each parser; ``files``: by configuration files beside them; ``hydra``: by its
configuration; ``names``: by names that hold the options; ``assigned``: by what the program puts on them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program.marks import LAUNCH, findings_of, folder_with, marks_of, versions_of
from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import PlannedJob

PROGRAMS = Path(__file__).with_name("programs")


def launches() -> Iterator[tuple[Path, str, str, str]]:
    """Each file and its launch, with the name and the text of each of its twins."""
    for file in sorted(PROGRAMS.glob("*/*.py")):
        for twin, texts in versions_of({file.name: file.read_text()}):
            for command in LAUNCH.findall(file.read_text()) or [f"torchrun {file.name}"]:
                yield file, command, twin, texts[file.name]


@pytest.mark.parametrize(
    ("file", "command", "twin", "text"),
    [pytest.param(*one, id=" ".join((one[0].parent.name, *one[1:3])).rstrip()) for one in launches()],
)
def test_what_is_marked_is_left_out_and_nothing_else(
    file: Path, command: str, twin: str, text: str, tmp_path: Path
) -> None:
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder_with({file.name: text}, file.parent, tmp_path / "programs"))
    (_, result), _ = collect_program.collect(machine, PlannedJob(tuple(command.split())))
    assert result.found is not None
    live, whole = (texts[0].text.splitlines() for texts in (result.found.files, result.found.whole))

    assert any(marks_of(text)), twin
    left_out = [
        line for line, (kept, was) in enumerate(zip(live, whole, strict=True), 1) if kept.strip() != was.strip()
    ]
    assert left_out == [line for line, words in findings_of(text, command) if words == "left out"]
