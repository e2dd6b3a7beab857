"""The source of the program that will train: its script, and the files beside it that it imports. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from unhang.checks.command_words import taken_apart
from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.evidence.items import SourceFile
from unhang.facts.imported_files import imported_files
from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Look
from unhang.findings import Source, say

NAME = "program"
LIMIT_S = 10.0
NEEDS = ("limits", "configuration", "timers")
MOST_FILES, MOST_CHARACTERS = 60, 4_000_000


def look(machine: Machine, plan: Plan) -> Iterator[tuple[type, Look[Any]]]:
    """Read the script and what it imports from its own folder."""
    launch = taken_apart(plan.command)
    script = _script(launch.program)
    if not script:
        yield ProgramSource, Look()
        return
    first = machine.read_named(script)
    if first.found is None:
        yield ProgramSource, Look(because=first.because or say("{path} is not there", path=script))
        return
    yield ProgramSource, Look(_with_imports(machine, script, first.found))


def _script(program: str) -> str:
    """``train.py`` as it stands; ``-m pkg.train`` (or a bare module name) as the file that would be run."""
    name = program.removeprefix("-m ")
    if name.endswith(".py"):
        return name
    return f"{name.replace('.', '/')}.py" if "." in name and "/" not in name and " " not in name else ""


def _with_imports(machine: Machine, script: str, text: str) -> ProgramSource:
    files = [SourceFile(Source(script), script, text)]
    folder = PurePosixPath(script).parent
    waiting, seen, read = list(imported_files(text, folder)), {script}, len(text)
    while waiting and len(files) < MOST_FILES and read < MOST_CHARACTERS:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        found = machine.read_named(path).found
        if found is not None:
            files.append(SourceFile(Source(path), path, found))
            read += len(found)
            waiting += imported_files(found, folder)
    return ProgramSource(tuple(files), bool(waiting))
