"""The pages that lead to the code name what is there, and what runs."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import trip
from scripts.house import HERE

PAGES = ("architecture", "decisions", "reasoning")
LINE = "A log line on its way to the report"
ROOTS = ("", "src/", "src/unhang/", "packages/unhang-lab/src/")
_SCHEMA = r"unhang\.\w+/\d"
_PATH = re.compile(rf"`(?!{_SCHEMA})((?:[\w.*-]+/)+[\w.*-]*|\w+\.py)`(?:\s+\(((?:`[\w.]+`(?:,\s+)?)+)\))?")
"""A file or folder, and the names in it that stand behind it in brackets."""
_DOTTED = re.compile(r"`(unhang\w*(?:\.\w+)+)`")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    """Without what stands between fences: files of a run, not of the tree."""
    return _FENCED.sub("", (HERE / "docs" / f"{page}.md").read_text(encoding="utf-8"))


def section(page: str, heading: str) -> str:
    return text_of(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def places(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each path of ``text``, with the names behind it."""
    return ((path, re.findall(r"[\w.]+", names)) for path, names in _PATH.findall(text))


def found(path: str) -> list[Path]:
    """What ``path`` is: from the root, below the sources, or anywhere in unhang for the name of a module alone."""
    here = [file for root in ROOTS for file in HERE.glob(f"{root}{path}")]
    return here or ([] if "/" in path else list(HERE.glob(f"src/unhang/**/{path}")))


def is_defined(path: str, name: str) -> bool:
    (file,) = found(path)
    module = ".".join(file.with_suffix("").parts).rpartition(".src.")[2]
    try:
        pkgutil.resolve_name(f"{module}:{name}")
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_every_path_a_page_names_is_there(page: str) -> None:
    named = list(places(text_of(page)))

    assert named
    assert [path for path, _ in named if not found(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_behind_a_path_is_defined_there(page: str) -> None:
    named = [(path, name) for path, names in places(text_of(page)) for name in names]

    assert [place for place in named if not is_defined(*place)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_module_a_page_names_is_there(page: str) -> None:
    for name in _DOTTED.findall(text_of(page)):
        pkgutil.resolve_name(name)


def test_a_line_passes_what_its_walk_names(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(trip.LOG, encoding="utf-8")
    asked = [sys.executable, trip.__file__, "--diagnose", str(log), str(HERE)]
    run = subprocess.run(asked, env=trip.environment(HERE), capture_output=True, text=True, timeout=60, check=True)
    called = {tuple(call) for call in json.loads(run.stdout.splitlines()[-1])["called"]}

    walked = [(f"unhang/{path}", name) for path, names in places(section("architecture", LINE)) for name in names]

    assert len(walked) >= 10
    assert [place for place in walked if (place[0], place[1].rpartition(".")[2]) not in called] == []


def test_the_page_on_reasoning_lists_what_runs() -> None:
    asked = [sys.executable, str(HERE / "scripts" / "reasoning.py"), "--check"]
    run = subprocess.run(asked, env=trip.environment(HERE), check=False)

    assert run.returncode == 0, "python scripts/reasoning.py writes docs/reasoning.md"
