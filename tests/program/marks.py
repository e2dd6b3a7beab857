"""Programs in files that say themselves what is found in them.

``# finds: WORDS`` ends a line of which WORDS must be said, ``# fine`` one that looks alike and of which nothing may be
said; several findings of one line are parted by ``; ``. ``# launch: COMMAND`` at the head of a program says how it is
started, several times where that matters: a mark then ends in ``if WORDS or WORDS`` or ``unless WORDS or WORDS`` of the
commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MARK = re.compile(r"  # (?:finds: (?P<finds>.+)|fine)$")
LAUNCH = re.compile(r"^# launch: (.+)$", re.MULTILINE)
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
