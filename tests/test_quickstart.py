"""The verdicts the first pages show are what the tool says of the log beside them."""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.command import unhang

DOCS = Path(__file__).resolve().parents[1] / "docs"
DEMO = DOCS.parent / "tests" / "cases" / "uneven-data" / "hit_lab_split_without_seed" / "input"
"""The job that ``make demo`` runs, kept as a case; the picture of a report in the README is its page."""


def block(text: str, kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, kind
    return found[1]


PAGES = [("quickstart.md", "en"), ("quickstart.zh-CN.md", "zh")]
WHEN_S = datetime(2026, 11, 21, 12, tzinfo=timezone.utc).timestamp()
"""Lines of the log carry no year: the file's does."""


def said_of_the_log(page: str, lang: str, folder: Path) -> str:
    """What the tool says of the log that ``page`` shows."""
    log = folder / "job.log"
    log.write_text(block((DOCS / page).read_text("utf-8"), "log"), "utf-8")
    os.utime(log, (WHEN_S, WHEN_S))
    return unhang("diagnose", "job.log", "--lang", lang, folder=folder).stdout


@pytest.mark.parametrize(("page", "lang"), PAGES)
def test_the_verdict_shown_is_the_verdict_given(page: str, lang: str, tmp_path: Path) -> None:
    said = said_of_the_log(page, lang, tmp_path)

    assert said.startswith(block((DOCS / page).read_text("utf-8"), "verdict")), said[:400]


@pytest.mark.parametrize(("page", "lang"), PAGES)
def test_the_readme_shows_to_the_byte_what_is_said_of_a_log_alone(page: str, lang: str, tmp_path: Path) -> None:
    said = said_of_the_log(page, lang, tmp_path)
    readme = (DOCS.parent / page.replace("quickstart", "README")).read_text("utf-8")
    shown = [text for text in re.findall(r"^```\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE) if "gpu-oom" in text]

    assert len(shown) == 1
    assert said.startswith(shown[0]), said


@pytest.mark.parametrize(("page", "lang"), [("README.md", "en"), ("README.zh-CN.md", "zh")])
def test_the_readme_shows_to_the_byte_what_is_said_of_the_job_of_the_demo(page: str, lang: str) -> None:
    said = unhang("diagnose", DEMO, "--lang", lang).stdout
    readme = (DOCS.parent / page).read_text("utf-8")
    shown = re.findall(r"^```\n([^`]*uneven-data[^`]*)^```$", readme, re.MULTILINE)

    assert len(shown) == 1
    assert said.startswith(shown[0]), said


def test_both_languages_show_the_same_log() -> None:
    assert len({block((DOCS / page).read_text("utf-8"), "log") for page, _ in PAGES}) == 1


def commands(page: str) -> list[str]:
    """Lines of the plain blocks, without comments and language."""
    found, kind = [], ""
    for line in (DOCS / page).read_text("utf-8").splitlines():
        if line.startswith("```"):
            kind = "" if kind else line[3:] or "plain"
        elif kind in ("plain", "console"):
            found.append(line.split("#")[0].replace(" --lang zh", "").strip())
    return found


@pytest.mark.parametrize("page", ["quickstart", "install", "run", "attach", "stories"])
def test_both_languages_show_the_same_commands(page: str) -> None:
    assert commands(f"{page}.md") == commands(f"{page}.zh-CN.md")
