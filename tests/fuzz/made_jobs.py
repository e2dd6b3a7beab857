"""Stalled jobs around the programs of this repository's tests: what ranks leave that stand in different lines."""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

from tests.case_writer import Job
from tests.fuzz.seeds import Seed

TESTS = Path(__file__).parents[1]
_WORDS = ("dist.", "rank", "torch", "loader")
_NO_CALLS = ("def ", "class ", "import ", "from ", "#", "@")
_STATEMENTS = (ast.If, ast.For, ast.While, ast.FunctionDef, ast.With)


@cache
def programs() -> tuple[str, ...]:
    """Every program of the tests, in a file or a text, that has some lines and speaks of what makes ranks differ."""
    files = sorted(path for path in TESTS.glob("*/**/programs/**/*.py") if path.relative_to(TESTS).parts[0] != "cases")
    found = dict.fromkeys(text for path in files if _is_program(text := path.read_text(encoding="utf-8")))
    for path in sorted(path for path in TESTS.rglob("test_*.py") if "fuzz" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_program(node.value):
                found[textwrap.dedent(node.value).lstrip("\n")] = None
    return tuple(found)


def _is_program(text: str) -> bool:
    if text.count("\n") < 3 or not any(word in text for word in _WORDS):
        return False
    try:
        return any(isinstance(statement, _STATEMENTS) for statement in ast.parse(textwrap.dedent(text)).body)
    except (SyntaxError, ValueError):
        return False


@cache
def job_seeds() -> tuple[Seed, ...]:
    """A job or two for each program, in neighbouring calls of it."""
    return tuple(
        Seed(f"made/{number}-{at}", _job(program, lines, number + at))
        for number, program in enumerate(programs())
        for at, lines in enumerate(islice(pairwise(_calls(program)), 2))
    )


def _calls(program: str) -> Iterator[str]:
    """Lines that call something and stand in the program once."""
    lines = [line.strip() for line in program.splitlines()]
    calls = (line for line in lines if "(" in line and " < " not in line and not line.startswith(_NO_CALLS))
    yield from (line for line in calls if sum(line in other for other in lines) == 1)


def _job(program: str, lines: tuple[str, str], number: int) -> dict[str, bytes]:
    """Ranks 0 and 2 wait in the first line, rank 1 stands in the second; what else there is turns with ``number``."""
    first, second = lines
    job = Job(program, 3, backend="gloo" if number % 7 == 0 else "nccl")
    job.history(range(3), 5, at=first)
    if number % 3 == 0:
        job.call((0, 2), 6, at=first, dtype="Half")
        job.call((1,), 6, at=first, dtype="BFloat16")
        job.history(range(3), 8, first=7, at=first)
    job.call((0, 2), 9, at=first, open=True)
    if number % 2:
        job.call((1,), 9, "broadcast", at=second, open=True)
    job.waits((0, 2), "all_reduce", first)
    job.stack(1, second, "sleep (/usr/lib/python3.11/x.py:3)" if number % 5 else "")
    job.stack(1, second, name="rank_1_child_77.txt", pid=77)
    job.dump(*(range(3) if number % 4 else (0, 2)))
    job.log("rank_1.log", f"step 8\n{_printed(program)}\n")
    if number % 4 == 0:
        told = {"group": "0", "rank": [1], "enqueued": [8], "completed": [8]}
        node = {"name": "h1", "host": "h1", "ranks": [1], "positions": [told]}
        job.files["machine/nodes.json"] = json.dumps({"schema": "unhang.nodes/1", "nodes": [node]}).encode()
    return job.inputs()


def _printed(program: str) -> str:
    """What the program's first constant text would print."""
    texts = (node.value for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Constant))
    return next((text for text in texts if isinstance(text, str) and len(text) > 8), "")
