"""The verdicts the first pages show are what the tool says of the log beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command import unhang

DOCS = Path(__file__).resolve().parents[1] / "docs"


def block(text: str, kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, kind
    return found[1]


@pytest.mark.parametrize(("page", "lang"), [("quickstart.md", "en"), ("quickstart.zh-CN.md", "zh")])
def test_the_verdict_shown_is_the_verdict_given(page: str, lang: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text("utf-8")
    log = tmp_path / "job.log"
    log.write_text(block(text, "log"), "utf-8")

    run = unhang("diagnose", log, "--lang", lang)

    assert run.stdout.startswith(block(text, "verdict")), run.stdout[:400]


def commands(page: str) -> list[str]:
    """Lines of the plain blocks, without comments and language."""
    found, kind = [], ""
    for line in (DOCS / page).read_text("utf-8").splitlines():
        if line.startswith("```"):
            kind = "" if kind else line[3:] or "plain"
        elif kind == "plain":
            found.append(line.split("#")[0].replace(" --lang zh", "").strip())
    return found


@pytest.mark.parametrize("page", ["quickstart", "install"])
def test_both_languages_show_the_same_commands(page: str) -> None:
    assert commands(f"{page}.md") == commands(f"{page}.zh-CN.md")
