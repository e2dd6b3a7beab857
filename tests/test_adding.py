"""The pages for who adds something name files, commands and names that are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from unhang.knowledge import messages

ROOT = Path(__file__).resolve().parents[1]
ADDING = (ROOT / "docs" / "adding.md").read_text("utf-8")
ADDED = re.findall(r"^# ((?:src|tests)/\S+\.py)$|^\$ cat (\S+)$|> (tests/\S+\.txt)`", ADDING, re.MULTILINE)
"""What the examples of the page add."""
ROOMS = {path.name for path in (ROOT / "src" / "unhang").iterdir()}
FOLDERS = {"src", "tests", "docs", "scripts", "packages"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", ADDING, re.DOTALL)


def added() -> set[str]:
    return {name for names in ADDED for name in names if name}


def named_paths(text: str) -> Iterator[Path]:
    """Paths below a room or a folder of the repository, in backticks and in commands; a placeholder is none."""
    prose = re.sub(r"```(?:python|toml|json)\n.*?```", "", text, flags=re.DOTALL)
    commands = " ".join(re.findall(r"^\$ .*|`python -m .*?`", prose, re.MULTILINE))
    for name in (*re.findall(r"`([\w./-]+/[\w.-]+)/?`", prose), *re.findall(r"(?<=[\s>])[\w./-]+/[\w.-]+", commands)):
        first = name.partition("/")[0]
        if first in ROOMS:
            yield ROOT / "src" / "unhang" / name
        elif first in FOLDERS:
            yield ROOT / name


@pytest.mark.parametrize("page", ["docs/adding.md", "CONTRIBUTING.md"])
def test_a_file_that_the_page_names_is_there(page: str) -> None:
    named = set(named_paths((ROOT / page).read_text("utf-8")))
    of_examples = {folder for name in added() for folder in (ROOT / name, *(ROOT / name).parents)}

    assert len(named) > 10
    assert sorted(str(path) for path in named - of_examples if not path.exists()) == []


@pytest.mark.parametrize("page", ["docs/adding.md", "CONTRIBUTING.md"])
def test_a_module_that_the_page_runs_is_there(page: str) -> None:
    modules = re.findall(r"python -m\s+((?:unhang|scripts)[\w.]*)", (ROOT / page).read_text("utf-8"))

    assert modules
    assert [name for name in modules if find_spec(name) is None] == []


def test_what_an_example_imports_is_there() -> None:
    wanted = [
        (node.module or "", alias.name)
        for block in blocks("python")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]

    assert ("unhang.findings", "Cause") in wanted
    assert [f"{module}.{name}" for module, name in wanted if not is_there(module, name)] == []


def is_there(module: str, name: str) -> bool:
    """Files that the page adds hold what it shows of them."""
    if f"src/{module.replace('.', '/')}.py" in added():
        return True
    found = import_module(module)
    return hasattr(found, name) or any(
        Path(folder, f"{name}.py").is_file() for folder in getattr(found, "__path__", ())
    )


def test_the_message_of_the_page_would_be_read() -> None:
    (row,) = messages._read_file("docs/adding.md", next(block for block in blocks("toml") if "[[message]]" in block))

    assert re.search(row.expression, row.example)
    assert any(anchor in row.example for anchor in row.anchors)
