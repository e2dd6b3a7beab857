"""``--patch``: the diff is the answer, or goes into a file that nothing else may be in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.patch.patching import apply
from unhang.cli.main import main

PROGRAM = "def load():\n    return None\n\n\nrows = load().train_test_split(0.1)\n"
COMMAND = ("--only", "program", "--", "torchrun", "--nproc-per-node", "2", "train.py")
pytestmark = pytest.mark.usefixtures("in_its_folder")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path / "train.py"


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["check", *words, *COMMAND])
    said = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, said.out, said.err


def test_the_diff_is_all_that_is_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = check(capsys)

    patched, text, _ = check(capsys, "--patch")

    assert patched == code == 1
    assert text.startswith("# ")
    assert program.read_text() == PROGRAM
    apply(text, program.parent)
    assert program.read_text() == PROGRAM.replace("0.1", "0.1, seed=42")
    assert check(capsys)[0] == 0


@pytest.mark.parametrize("words", [["--patch", "fix.patch"], ["--patch=fix.patch"], ["--patch", "fix.diff"]])
def test_a_file_takes_it_and_the_report_is_printed(
    words: list[str], program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, said = check(capsys, *words)

    name = words[-1].removeprefix("--patch=")
    assert code == 1
    assert "has no seed" in report
    assert f"git apply {name}" in said
    apply((program.parent / name).read_text(), program.parent)


def test_a_file_of_the_program_is_never_written_over(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = check(capsys, "--patch=train.py")

    assert code == 2
    assert "train.py exists and may be no patch" in said
    assert program.read_text() == PROGRAM


def test_without_an_edit_no_file_is_written(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text("print()\n")

    code, report, said = check(capsys, "--patch", "fix.patch")

    assert code == 0
    assert report
    assert "No patch: no fix here is a single, certain edit." in said
    assert not (program.parent / "fix.patch").exists()
