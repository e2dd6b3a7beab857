"""Programs with what ``unhang check`` must find in them, on its line, and look-alikes in which it must find nothing.

A program is a file of ``programs/*/`` with a mark (``# finds: CAUSE CERTAINTY SEVERITY "WORDS"``, ``# fine``), or a
folder that holds ``main.py``, with the modules beside it; ``tests/program/marks.py`` says how marks are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.check.risks.program.asked import ask, in_words
from tests.program.marks import LAUNCH, findings_of, folder_with, marks_of, versions_of
from unhang.findings import Finding

PROGRAMS = Path(__file__).with_name("programs")
MARKED = re.compile(r'(?P<kind>[^"]+?)(?P<says>(?: "[^"]+")*)')


@dataclass(frozen=True)
class Program:
    """``texts``: of what may hold marks in ``folder``, by file; ``twin``: the name of the twin whose they are."""

    folder: Path
    texts: Mapping[str, str]
    command: str
    twin: str

    @property
    def marks(self) -> Iterator[tuple[str, int, str, list[str]]]:
        """File, line, kind and words of every finding of this launch."""
        for file, program in self.texts.items():
            for line, text in findings_of(program, self.command):
                mark = MARKED.fullmatch(text)
                assert mark is not None, text
                yield file, line, mark["kind"], re.findall(r'"([^"]+)"', mark["says"])


def programs() -> Iterator[Program]:
    for folder in sorted(path for path in PROGRAMS.glob("*/*") if path.is_dir()):
        yield from _launches(folder, sorted(folder.rglob("*.py")), "main.py")
    for file in sorted(PROGRAMS.glob("*/*.py")):
        if any(marks_of(file.read_text())):
            yield from _launches(file.parent, [file], file.name)


def _launches(folder: Path, files: Sequence[Path], script: str) -> Iterator[Program]:
    read = {file.relative_to(folder).as_posix(): file.read_text() for file in files}
    commands = [command for text in read.values() for command in LAUNCH.findall(text)]
    for twin, texts in versions_of(read):
        for command in commands or [f"torchrun --nproc_per_node 2 {script}"]:
            yield Program(folder, texts, command, twin)


def name_of(program: Program) -> str:
    launch = program.command.removeprefix("torchrun --nproc_per_node 2 ")
    return f"{program.folder.relative_to(PROGRAMS)}: {launch} {program.twin}".rstrip()


ALL = list(programs())


@pytest.mark.parametrize("program", ALL, ids=map(name_of, ALL))
def test_what_is_marked_is_found_and_nothing_else(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_with(program.texts, program.folder, tmp_path / "programs"))
    unmarked = list(ask(program.command).findings)
    missing = []
    for mark in program.marks:
        found = next((one for one in unmarked if _is_it(one, *mark)), None)
        if found is None:
            missing.append(mark)
        else:
            unmarked.remove(found)

    assert (missing, list(map(in_words, unmarked))) == ([], [])


def _is_it(finding: Finding, file: str, line: int, kind: str, says: list[str]) -> bool:
    where = finding.where
    assert where is not None
    kinds = f"{finding.cause.value} {finding.certainty.value} {finding.severity.value}"
    return (where.file, where.line, kinds) == (file, line, kind) and all(words in in_words(finding) for words in says)


def test_every_program_says_what_is_found_in_it() -> None:
    folders = [path for path in PROGRAMS.glob("*/*") if path.is_dir()]

    assert [path.name for path in folders if not any(any(marks_of(f.read_text())) for f in path.rglob("*.py"))] == []
    assert len(ALL) > 240
