"""The source of the program that will train: its script, and the files beside it that it imports. Nothing is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from unhang.checks.command_words import taken_apart
from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.evidence.items import SourceFile
from unhang.facts.imported_files import imports_of
from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Look
from unhang.findings import Source, say
from unhang.knowledge.libraries import is_library_file

NAME = "program"
LIMIT_S = 10.0
NEEDS = ("limits", "configuration", "timers")
MOST_FILES, MOST_CHARACTERS = 60, 4_000_000


def look(machine: Machine, plan: Plan) -> Iterator[tuple[type, Look[Any]]]:
    """Read the script and what it imports from its own folder."""
    launch = taken_apart(plan.command)
    if not plan.command:
        because = say("no command was given, so nothing tells which program will be started")
        yield ProgramSource, Look(because=because, how="unhang check -- torchrun --nproc-per-node 8 train.py")
        return
    script = _script(launch.program)
    if not script:
        because = say("which script {program} starts was not followed", program=launch.program or plan.command[0])
        yield ProgramSource, Look(because=because, how="unhang check -- torchrun --nproc-per-node 8 SCRIPT.py")
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
    """The script and every file it leads to. An import that leads to none, and to no installed library, is named."""
    files = {script: SourceFile(Source(script), script, text)}
    folder = PurePosixPath(script).parent
    waiting, absent, read = list(imports_of(text, folder)), dict[str, None](), len(text)
    while waiting and len(files) < MOST_FILES and read < MOST_CHARACTERS:
        one = waiting.pop(0)
        for path in one.files:
            found = None if path in files else machine.read_named(path).found
            if found is not None:
                files[path] = SourceFile(Source(path), path, found)
                read += len(found)
                waiting += imports_of(found, folder, PurePosixPath(path).parent)
        if files.keys().isdisjoint(one.files) and not _is_library(machine, one.package):
            absent[one.name] = None
    return ProgramSource(tuple(files.values()), tuple(absent), bool(waiting))


def _is_library(machine: Machine, package: str) -> bool:
    """Nobody's own code: of the standard library, of a list of well-known packages, or installed as a library."""
    if not package:
        return False
    known = is_library_file(f"{package}/__init__.py") or is_library_file(f"{package}.py")
    return known or package in sys.stdlib_module_names or machine.has_library(package)
