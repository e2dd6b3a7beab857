"""The page on ``unhang check`` shows what the command prints, and names every question and option there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tests.command import unhang
from unhang.check.all_inspections import ALL_INSPECTIONS
from unhang.cli.command_line import command_line

ROOT = Path(__file__).parents[2]
PAGES = [("check.md", "en"), ("check.zh-CN.md", "zh")]
MACHINE = ROOT / "tests" / "machines" / "l20_two_numa"


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


@pytest.mark.parametrize(("page", "lang"), PAGES)
def test_the_screen_shown_is_the_screen_printed(page: str, lang: str) -> None:
    shown = re.search(
        r"^\$ unhang (?P<words>check --only (?:(?!^```)[\s\S])*?)^```\n+```answer\n(?P<answer>.*?)^```$",
        text_of(page),
        re.MULTILINE | re.DOTALL,
    )
    assert shown is not None
    words = shlex.split(shown["words"].replace("\\\n", " "))

    run = unhang(words[0], "--machine", MACHINE, "--lang", lang, *words[1:])

    assert run.stdout == shown["answer"], run.stderr


@pytest.mark.parametrize(("page", "lang"), PAGES)
def test_every_question_and_option_is_named(page: str, lang: str) -> None:
    text = text_of(page)
    command = get_command(command_line()).commands["check"]  # type: ignore[attr-defined]
    options = {name for option in command.params for name in option.opts if name.startswith("--")}

    assert {check.name for check in ALL_INSPECTIONS} - set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set()
    assert {name for name in options if f"`{name}" not in text} - {"--help", "--debug"} == set()
