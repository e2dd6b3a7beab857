"""The line of the program that printed a line of the log, by its constant parts."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.syntax.print_statements import printed_at

PROGRAM = """
import logging


def evaluate(batches):
    for number in range(batches):
        print(f"evaluating: {number}/{batches} batches")


def main():
    logging.info("epoch %d finished in %.1f s", epoch, seconds)
    print("saving to {}".format(path))
    print(loss)
    print(f"{rank}: ok")
    print("twice the same words")
    print("twice the same words")
"""
SOURCES = {"/job/train.py": SourceFile(Source("source/train.py"), "/job/train.py", PROGRAM)}


@pytest.mark.parametrize(
    ("text", "line", "function"),
    [
        ("evaluating: 50/70 batches", 7, "evaluate"),
        ("[rank0]: evaluating: 50/70 batches", 7, "evaluate"),
        ("INFO:root:epoch 3 finished in 12.5 s", 11, "main"),
    ],
)
def test_the_call_with_these_words_is_named(text: str, line: int, function: str) -> None:
    where = printed_at(text, SOURCES)

    assert where is not None
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
    assert printed_at(text, SOURCES) is None


@pytest.mark.parametrize("program", ["def broken(:\n", "\0", "x = (" * 500])
def test_a_source_that_does_not_parse_is_passed_over(program: str) -> None:
    broken = SourceFile(Source("b.py"), "/job/b.py", program)

    assert printed_at("evaluating: 5/7 batches", {"/job/b.py": broken}) is None
