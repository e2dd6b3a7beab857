"""Each item of five articles on stalls is answered in both languages; ``items.toml`` says with what."""

from __future__ import annotations

import ast
import gc
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unhang.cli.main import main
from unhang.report.explain.explanation_text import explanation_layout, localized
from unhang.report.explain.search import explain
from unhang.report.localizer import Localizer

ROOT = Path(__file__).parents[2]
ITEMS: list[dict[str, Any]] = msgspec.toml.decode((Path(__file__).parent / "items.toml").read_bytes())["item"]
LANGUAGES = ("en", "zh")
STORIES = {"llama-recipes": 28, "openclip": 25, "llama-factory": 25, "torchtitan": 23, "grpo": 36}
KINDS = {"symptom", "term", "cause", "advice"}
ANSWERED_BY = {"explain": "asked", "diagnose": "log", "check": "program"}
LAUNCHES = {
    "program": ("train.py", ("torchrun", "--nproc-per-node", "2", "train.py")),
    "environment": ("run.sh", ("bash", "run.sh")),
}
_CHINESE = re.compile(r"[\u3400-\u9fff]")


def answered(command: str) -> list[Any]:
    """The items that ``command`` answers, in each language."""
    return [
        pytest.param(item, lang, id=f"{item['number']}-{lang}")
        for item in ITEMS
        if command in item["command"]
        for lang in LANGUAGES
    ]


def test_every_item_is_there_and_has_an_answer_or_the_test_that_shows_it() -> None:
    assert [item["number"] for item in ITEMS] == list(range(1, 138))
    assert {story: sum(item["story"] == story for item in ITEMS) for story in STORIES} == STORIES
    assert {item["kind"] for item in ITEMS} == KINDS
    for item in ITEMS:
        assert item["command"] or item.get("shown_by"), item["number"]
        assert item["command"] == [name for name, what in ANSWERED_BY.items() if what in item], item["number"]
        assert item["en"], item["number"]
        assert _CHINESE.search(item["zh"]) or item["zh"] == item["en"], item["number"]


@pytest.mark.parametrize(("item", "lang"), answered("explain"))
def test_explain_has_the_page_in_the_reader_s_language(item: dict[str, Any], lang: str) -> None:
    localizer = Localizer(lang)
    for asked in item["asked"][lang]:
        found = explain(asked)
        text = " ".join(explanation_layout(found, localizer, 10_000).plain().split())
        meaning = [localized(line, localizer) for page in found.pages for line in page.meaning]

        assert not found.nearest, asked
        assert item["page"] in [page.title for page in found.pages], asked
        assert [line for line in meaning if bool(_CHINESE.search(line)) != (lang == "zh")] == [], asked
        assert item.get("says", {}).get(lang, "") in text, asked


@pytest.mark.parametrize(("item", "lang"), answered("diagnose"))
def test_diagnose_names_the_cause(
    item: dict[str, Any], lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text(item["log"], "utf-8")
    _, printed = said(capsys, "diagnose", "--format", "json", "--lang", lang, str(tmp_path / "job.log"))
    document = json.loads(printed)
    candidates = [row["cause"] for row in document["differential"]]
    named = [found["cause"] for found in document["findings"] if found["cause"] != "unknown"]

    if "causes" in item:
        assert {*item["causes"]} & {*named[:1], *candidates[:1]}
    if "listed" in item:
        assert item["listed"] in candidates
    assert item.get("answer", {}).get(lang, "") in printed


@pytest.mark.parametrize(("item", "lang"), answered("check"))
def test_check_says_it_of_the_job_and_not_of_its_twin(
    item: dict[str, Any], lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (name for name in os.environ if name.startswith(("NCCL_", "TORCH_"))):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch.distributed as dist\n\ndist.init_process_group()\n", "utf-8")
    name, launch = LAUNCHES[item["only"]]
    said_of = {}
    for which in ("program", "twin"):
        (tmp_path / name).write_text(item[which], "utf-8")
        code, printed = said(capsys, "check", "--only", item["only"], "--lang", lang, "--", *launch)
        assert code in (0, 1), printed
        said_of[which] = without_breaks(printed)

    assert without_breaks(item["found"][lang]) in said_of["program"]
    assert without_breaks(item["found"][lang]) not in said_of["twin"]


def test_the_tests_that_show_an_item_exist() -> None:
    named = [name for item in ITEMS for name in item.get("shown_by", ())]

    assert named
    assert [name for name in named if name.partition("::")[2] not in functions_in(name.partition("::")[0])] == []


def test_what_no_test_can_show_is_few() -> None:
    assert len([item for item in ITEMS if "part" in item]) <= 9


@cache
def functions_in(file: str) -> frozenset[str]:
    path = ROOT / file
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def without_breaks(text: str) -> str:
    return "".join(text.split())


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    """The exit code and what the command line printed, run in this process."""
    capsys.readouterr()
    thresholds = gc.get_threshold()  # main raises them for a process that ends soon
    with pytest.raises(SystemExit) as left:
        main(words)
    gc.set_threshold(*thresholds)
    return left.value.code, capsys.readouterr().out
