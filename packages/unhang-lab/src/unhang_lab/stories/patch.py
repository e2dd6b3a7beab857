"""Read and apply a story's ``fixed.patch``: a unified diff, applied as ``patch -p1`` would, exactly or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from unhang.errors import UsageError

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_NEW = "/dev/null"


def added_lines(patch: str) -> Iterator[str]:
    """The lines that ``patch`` adds."""
    return (line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++ "))


def apply_patch(patch: str, folder: Path) -> None:
    """Change the files of ``folder`` as ``patch`` says.

    Raises:
        UsageError: it does not fit; nothing was changed then.
    """
    made: dict[Path, str] = {}
    for name, is_new, hunks in _files(patch.splitlines()):
        path = folder / name
        if folder.resolve() not in path.resolve().parents:
            raise UsageError(f"the patch names {name}, outside the story's folder")
        lines = [] if is_new else _lines_of(path)
        for start, old, new in reversed(hunks):
            if lines[start : start + len(old)] != old:
                raise UsageError(f"the patch does not fit {name} at line {start + 1}")
            lines[start : start + len(old)] = new
        made[path] = "\n".join(lines) + "\n"
    if not made:
        raise UsageError("the patch changes nothing")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"the patch changes {path.name}, which cannot be read: {error}") from error


_Hunk = tuple[int, list[str], list[str]]
"""(line before which it begins, counted from 0; lines as they are; lines as they become)"""


def _files(lines: list[str]) -> Iterator[tuple[str, bool, list[_Hunk]]]:
    """(name, whether it is new, its hunks) for every file of the patch."""
    at = 0
    while at < len(lines):
        if not (lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")):
            at += 1
            continue
        is_new = lines[at][4:].split("\t")[0].strip() == _NEW
        name = lines[at + 1][4:].split("\t")[0].strip().partition("/")[2]
        at, hunks = at + 2, []
        while at < len(lines) and (match := _HUNK.match(lines[at])):
            old: list[str] = []
            new: list[str] = []
            at += 1
            while at < len(lines) and lines[at][:1] in (" ", "+", "-", "\\", "") and not lines[at].startswith("--- "):
                kind, text = lines[at][:1], lines[at][1:]
                old += [text] if kind in (" ", "-", "") else []
                new += [text] if kind in (" ", "+", "") else []
                at += 1
            hunks.append((max(int(match[1]) - (match[2] != "0"), 0), old, new))
        yield name, is_new, hunks
