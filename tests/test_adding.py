"""The pages for who adds something name what is there, and the examples of docs/adding.md run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unhang.check.risks.risk import RiskFile
from unhang.evidence.inputs import read_evidence
from unhang.evidence.stacks.stack_limits import FrameBudget
from unhang.facts.build import build_facts
from unhang.findings import Cause
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import StoredMachine
from unhang.knowledge import messages
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase

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


def test_the_message_of_the_page_would_be_read() -> None:
    (row,) = messages._read_file("docs/adding.md", next(block for block in blocks("toml") if "[[message]]" in block))

    assert re.search(row.expression, row.example)
    assert any(anchor in row.example for anchor in row.anchors)


def load(monkeypatch: pytest.MonkeyPatch, path: str, **known: Any) -> ModuleType:
    """The module at ``path`` with what the page shows of it; ``known``: names that it would import besides."""
    (text,) = [
        part
        for block in blocks("python")
        for part in re.split(r"^# (?=src/|tests/)", block, flags=re.MULTILINE)
        if re.match(rf"{re.escape(path)}\b", part)
    ]
    name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    if (ROOT / path).exists():
        vars(module).update(vars(import_module(name)))
    vars(module).update(known)
    monkeypatch.setitem(sys.modules, name, module)
    exec(text.partition("\n")[2], vars(module))
    return module


def test_the_detector_of_the_page_sees_its_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    detector = load(monkeypatch, "src/unhang/causes/machine/host_memory.py")
    log = re.search(r"^\$ cat \S+/hit_\S+/job.log\n((?:(?!\$ ).*\n)+)", ADDING, re.MULTILINE)
    assert log is not None
    (tmp_path / "job.log").write_text(log[1])
    # In place of the row for its message, which the page tells in words.
    monkeypatch.setattr(detector, "events_stating", lambda facts, _: facts.events_of("py.error"))
    rows = read_typed("the page", dict[str, Phrase], next(block for block in blocks("toml") if "/causes/" in block))
    monkeypatch.setattr("unhang.knowledge.words._sentences", lambda path: rows)

    (signal,) = detector.detect_descriptors(build_facts(read_evidence([str(tmp_path)])))

    assert (detector.CAUSE, signal.parts["ranks"], signal.whole) == (Cause.HOST_MEMORY, (1,), True)


def test_the_risk_of_the_page_judges_what_its_inspection_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    core_file = load(monkeypatch, "src/unhang/check/environment/environment.py").CoreFile
    inspection = load(monkeypatch, "src/unhang/check/environment/collect_limits.py", CoreFile=core_file)
    rows = read_typed("the page", RiskFile, next(block for block in blocks("toml") if "[risk.core-file]" in block))
    monkeypatch.setattr("unhang.check.risks.risk.risk_file", lambda family: rows)
    judged = load(monkeypatch, "src/unhang/check/risks/limits.py", CoreFile=core_file)
    seen = inspection._core_file(StoredMachine(ROOT / "tests" / "machines" / "h100_ill"))

    assert seen.found == core_file(0)
    assert [str(answer.what) for answer in judged.core_file(NodeInspection(results={core_file: seen}))]
    unlimited = NodeInspection(results={core_file: InspectionResult(core_file(None))})
    assert [answer.subject for answer in judged.core_file(unlimited)] == ["core"]


def test_the_guard_of_the_page_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = load(monkeypatch, "src/unhang/guards/any_rank.py")

    assert guard.any_rank(True)
    assert not guard.any_rank(False)


def test_the_reader_of_the_page_reads_its_own_example(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = load(monkeypatch, "src/unhang/evidence/stacks/pystack.py")
    text = re.sub("^    ", "", reader.__doc__ or "", flags=re.MULTILINE)

    (dump,) = reader.read(text, source="pystack.txt", rank=3, budget=FrameBudget("pystack.txt", 3))

    assert reader.looks_like(text)
    assert [frame.native for frame in dump.threads[0].frames] == [True, False]
