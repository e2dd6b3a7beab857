"""The verdicts the first pages show are what the tool says of the log beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.shown_verdicts import PAGES, PICTURES, filled, picture

DOCS = Path(__file__).resolve().parents[1] / "docs"
NEW = ["reading-a-verdict", "troubleshooting", "ci", "nccl-end-to-end"]
WRITTEN = "python -m scripts.shown_verdicts writes it"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_shows_to_the_byte_what_is_said(path: Path) -> None:
    text = path.read_text("utf-8")

    assert "<!-- unhang diagnose " in text
    assert filled(text, "zh" if ".zh" in path.name else "en") == text, WRITTEN


@pytest.mark.parametrize(("path", "lang"), PICTURES.items(), ids=lambda value: getattr(value, "name", value))
def test_the_picture_shows_what_is_said_of_the_job_of_the_demo(path: Path, lang: str) -> None:
    assert picture(lang) == path.read_text("utf-8"), WRITTEN


@pytest.mark.parametrize("page", ["quickstart.md", "quickstart.zh-CN.md"])
def test_the_first_minutes_begin_with_the_log_of_the_examples(page: str) -> None:
    shown = re.search(r"^```log\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)

    assert shown is not None
    assert shown[1] == (DOCS.parent / "examples" / "out-of-memory.log").read_text("utf-8")


def commands(page: str) -> list[str]:
    """Lines of the plain blocks, without comments, language and verdicts."""
    found, kind = [], ""
    text = re.sub(r"(<!-- unhang diagnose .*?-->\n)```", r"\1```verdict", (DOCS / page).read_text("utf-8"))
    for line in text.splitlines():
        if line.startswith("```"):
            kind = "" if kind else line[3:] or "plain"
        elif kind in ("plain", "console"):
            found.append(line.split("#")[0].replace(" --lang zh", "").strip())
    return found


@pytest.mark.parametrize("page", ["quickstart", "install", "run", "attach", "stories", *NEW])
def test_both_languages_show_the_same_commands(page: str) -> None:
    assert commands(f"{page}.md") == commands(f"{page}.zh-CN.md")
