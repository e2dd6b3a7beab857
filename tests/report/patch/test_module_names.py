"""Code that is put into a file uses the names that the file has, and takes none that mean something else."""

from __future__ import annotations

import ast

import pytest

from unhang.program.syntax.source_text import SourceText
from unhang.report.edits.calls import in_words_of

HOUR = "datetime.timedelta(hours=1)"


@pytest.mark.parametrize(
    ("imports", "said", "added"),
    [
        ("import datetime", HOUR, ""),
        ("import datetime as dt", "dt.timedelta(hours=1)", ""),
        ("from datetime import timedelta as td", "td(hours=1)", ""),
        ("import os", HOUR, "import datetime"),
        ("from datetime import datetime", "timedelta(hours=1)", "from datetime import timedelta"),
        ("import os\ndef f(datetime):\n    return datetime", "timedelta(hours=1)", "from datetime import timedelta"),
    ],
)
def test_a_module_is_called_as_the_file_calls_it(imports: str, said: str, added: str) -> None:
    file = SourceText(f'"""A program."""\nfrom __future__ import annotations\n{imports}\n'.encode())

    words = in_words_of(file, ast.parse(file.text), HOUR)

    assert words is not None
    code, replacements = words
    made = file.with_replaced(replacements)
    assert code == said
    assert made is not None
    assert made.text == (_behind(file.text, added) if added else file.text)


def _behind(text: str, added: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:3], f"{added}\n", *lines[3:]])


@pytest.mark.parametrize("text", ["datetime = timedelta = None\n", "x = 1\n"], ids=["both_taken", "no_imports"])
def test_without_a_name_that_is_free_and_a_place_for_it_there_is_none(text: str) -> None:
    file = SourceText(text.encode())

    assert in_words_of(file, ast.parse(text), HOUR) is None
