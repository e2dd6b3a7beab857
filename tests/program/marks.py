"""Programs in files that say themselves what is found in them.

``# finds: WORDS`` ends a line of which WORDS must be said, ``# fine`` one that looks alike and of which nothing may be
said; several findings of one line are parted by ``; ``. ``# launch: COMMAND`` at the head of a program says how it is
started, several times where that matters: a mark then ends in ``if WORDS or WORDS`` or ``unless WORDS or WORDS`` of the
commands.

``# fine NAME: OLD => NEW`` at the head makes a twin of the program, in which NEW stands for OLD everywhere and nothing
is found; ``# also NAME: OLD => NEW`` one in which the marks count, those in NEW among them. Several changes are parted
by `` && ``; ``\\n`` is the end of a line.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

MARK = re.compile(r"  # (?:finds: (?P<finds>.+)|fine)$", re.MULTILINE)
LAUNCH = re.compile(r"^# launch: (.+)$", re.MULTILINE)
TWIN = re.compile(r"^# (?P<kind>fine|also) (?P<name>[\w ]+): (?P<changes>.+ =>.*)\n", re.MULTILINE)
CONDITION = re.compile(r" (?P<kind>if|unless) (?P<words>[^\"]+)$")


def marks_of(program: str) -> Iterator[tuple[int, str]]:
    """Every mark with its line; an empty one where all is fine."""
    for number, line in enumerate(program.splitlines(), 1):
        if (mark := MARK.search(line)) is not None:
            for finds in (mark["finds"] or "").split("; "):
                yield number, finds


def findings_of(program: str, command: str) -> Iterator[tuple[int, str]]:
    """The marks of findings that hold for this launch, without their condition."""
    for line, text in marks_of(program):
        condition = CONDITION.search(text)
        if text and (condition is None or _holds(condition, command)):
            yield line, CONDITION.sub("", text)


def _holds(condition: re.Match[str], command: str) -> bool:
    is_there = any(f" {words} " in f" {command} " for words in condition["words"].split(" or "))
    return is_there == (condition["kind"] == "if")


def versions_of(files: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The texts of a program by file, as they are (without a name), then those of each of its twins."""
    plain = {file: TWIN.sub("", text) for file, text in files.items()}
    yield "", plain
    for twin in (twin for text in files.values() for twin in TWIN.finditer(text)):
        texts = plain if twin["kind"] == "also" else {file: MARK.sub("  # fine", text) for file, text in plain.items()}
        for change in twin["changes"].split(" && "):
            old, new = re.split(" => ?", change.replace("\\n", "\n"))
            assert any(old in text for text in texts.values()), f"{twin['name']}: {old} is not there"
            texts = {file: text.replace(old, new) for file, text in texts.items()}
        yield twin["name"], texts


def folder_with(texts: Mapping[str, str], folder: Path, other: Path) -> Path:
    """``folder`` where it holds these ``texts``, else ``other`` with all of it and them."""
    if all((folder / file).read_text() == text for file, text in texts.items()):
        return folder
    shutil.copytree(folder, other, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in texts.items():
        (other / file).write_text(text)
    return other
