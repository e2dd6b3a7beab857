"""Commands in what users are advised: they parse, their options exist, and both languages name the same ones."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.command import unhang
from unhang.knowledge.reasoning_rows import cause_rows
from unhang.knowledge.remedies import remedy_rows
from unhang.knowledge.words import Phrase, Words

PROGRAMS = ("py-spy", "torchrun", "unhang", "kubectl", "docker", "dmesg", "df", "free", "lslocks", "ip")
"""Those that a developer's machine may have; their help is asked where they are there."""
COMMAND = re.compile(rf"(?<![\w./@-])(?:{'|'.join(PROGRAMS)})(?: [^;,()|，；。：…、（）`\n一-鿿]+)?")
OPTION = re.compile(r"(?<=\s)--?[A-Za-z][\w-]*")
ONLY_READ = ("unhang check --only timers", "df -h /dev/shm", "free -g", "ps -o pid", "unhang explain wd.timeout")
"""Of the commands in the rows, those that change nothing and need nobody's process."""


def texts_of(phrase: Phrase) -> tuple[str, ...]:
    return (phrase.en, phrase.zh) if isinstance(phrase, Words) else (phrase,)


def advice() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each text of the rows by its name, in every language it is written in."""
    for name, row in remedy_rows().items():
        for part in ("title", "change", "verify"):
            yield f"{name}.{part}", texts_of(getattr(row, part))
    for cause, row_of_cause in cause_rows().items():
        yield f"{cause.value}.how", (row_of_cause.how,)


def commands_in(text: str) -> list[str]:
    return [found.strip() for found in COMMAND.findall(text)]


def options_in(text: str) -> list[tuple[str, str]]:
    """(program with its verb, option), sorted."""
    found = set()
    for command in commands_in(text):
        program, *rest = command.split()
        verb = rest[0] if rest and program in ("py-spy", "unhang", "kubectl", "docker") and rest[0].isalpha() else ""
        found |= {(f"{program} {verb}".strip(), option) for option in OPTION.findall(command.split(" -- ")[0])}
    return sorted(found)


@cache
def help_of(program: str) -> str:
    """What it says of itself; empty where it is not installed."""
    name, *verb = program.split()
    if name == "unhang":
        return unhang(*verb, "--help").stdout
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        return ""
    answer = subprocess.run([path, *verb, "--help"], capture_output=True, timeout=100, check=False)
    return (answer.stdout + answer.stderr).decode("utf-8", "replace")


def test_a_command_is_found_in_a_sentence() -> None:
    text = "on its node: py-spy dump --native --pid PID, twice; then unhang diagnose DIR (see torchrun --log-dir DIR)"

    assert commands_in(text) == ["py-spy dump --native --pid PID", "unhang diagnose DIR", "torchrun --log-dir DIR"]
    assert options_in(text) == [("py-spy dump", "--native"), ("py-spy dump", "--pid"), ("torchrun", "--log-dir")]


@pytest.mark.parametrize(("name", "texts"), list(advice()), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_parse_and_are_the_same_in_both_languages(name: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        for command in commands_in(text):
            assert shlex.split(command.replace("'s ", "s ")), name
        assert not re.search(r"--pid \S+, *\S*pid", text, re.IGNORECASE), f"{name}: one command a process"
    assert len({tuple(options_in(text)) for text in texts}) == 1, name


def test_options_exist() -> None:
    """By the programs' own help, where they are installed."""
    wanted = {option for _, texts in advice() for text in texts for option in options_in(text)}
    wrong = [f"{program} {option}" for program, option in sorted(wanted) if not knows(program, option)]

    assert wrong == []
    assert ("py-spy dump", "--pid") in wanted


def knows(program: str, option: str) -> bool:
    said = help_of(program)
    return not said or re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", said.replace("_", "-")) is not None


@pytest.mark.parametrize("command", ONLY_READ)
def test_what_only_reads_runs(command: str) -> None:
    program, *words = command.split()
    if program == "unhang":
        assert unhang(*words).returncode in (0, 1, 2, 3)
        return
    path = shutil.which(program)
    if path is not None:
        assert subprocess.run([path, *words], capture_output=True, timeout=60, check=False).returncode == 0
