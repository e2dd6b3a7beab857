"""The line of the program that printed a line of the log, by its constant parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.program.marks import marks_of
from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.syntax.print_statements import find_print_statement

PROGRAM = Path(__file__).with_name("programs") / "prints.py"
SOURCES = {"/job/train.py": SourceFile(Source("source/train.py"), "/job/train.py", PROGRAM.read_text())}
PRINTED = [(line, words) for line, words in marks_of(PROGRAM.read_text()) if words]


@pytest.mark.parametrize(("line", "printed"), PRINTED)
def test_the_call_with_these_words_is_named(line: int, printed: str) -> None:
    where = find_print_statement(printed, SOURCES)

    assert where is not None
    function = re.findall(r"^def (\w+)", "\n".join(PROGRAM.read_text().splitlines()[:line]), re.MULTILINE)[-1]
    assert (where.file, where.line, where.function) == ("/job/train.py", line, function)


@pytest.mark.parametrize(
    "text",
    [
        "twice the same words",  # two calls
        "0.31",  # no constant part
        "3: ok",  # too short a constant part
        "something else altogether",
        "",
    ],
)
def test_no_guess_when_no_call_or_several_fit(text: str) -> None:
    assert find_print_statement(text, SOURCES) is None


@pytest.mark.parametrize("program", ["def broken(:\n", "\0", "x = (" * 500])
def test_a_source_that_does_not_parse_is_passed_over(program: str) -> None:
    broken = SourceFile(Source("b.py"), "/job/b.py", program)

    assert find_print_statement("evaluating: 5/7 batches", {"/job/b.py": broken}) is None
