"""The source of the program that will train: its script, all it imports, and what its arguments name. Nothing is run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from unhang.checks.command_words import taken_apart
from unhang.checks.configuration import configuration_of
from unhang.checks.importing.folders import Folders
from unhang.checks.importing.follow import Follower, Followed
from unhang.checks.importing.named_code import NamedCode, named_code
from unhang.checks.importing.start import Start, start_of
from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.evidence.items import SourceFile
from unhang.facts.preflight.launch import Configuration, Launch
from unhang.facts.preflight.program import ProgramSource
from unhang.facts.preflight.situation import Look
from unhang.findings import Source, say

NAME = "program"
LIMIT_S = 60.0
READING_S = 40.0
"""Of that for reading; what was not read by then is said to be missing."""
NEEDS = ("limits", "configuration", "timers")


def look(machine: Machine, plan: Plan) -> Iterator[tuple[type, Look[Any]]]:
    """Read the script, what it imports, and the code that its arguments name."""
    launch = taken_apart(plan.command)
    if not plan.command:
        because = say("no command was given, so nothing tells which program will be started")
        yield ProgramSource, Look(because=because, how="unhang check -- torchrun --nproc-per-node 8 train.py")
        return
    program = _program(launch)
    if not program:
        because = say("which script {program} starts was not followed", program=launch.program or plan.command[0])
        yield ProgramSource, Look(because=because, how="unhang check -- torchrun --nproc-per-node 8 SCRIPT.py")
        return
    folders = Folders(machine)
    start = start_of(folders, program, plan.command, machine.environment)
    if not start.script:
        refused = machine.read(folders.absolute(program)).because if program.endswith(".py") else None
        yield ProgramSource, Look(because=refused or say("{path} is not there", path=program))
        return
    configuration, _ = configuration_of(machine, launch)
    yield ProgramSource, Look(_source(folders, start, launch, configuration))


def _program(launch: Launch) -> str:
    """``train.py`` as it stands, or the name of a module; empty where the command starts neither."""
    name = launch.program.removeprefix("-m ")
    if name.endswith(".py"):
        return name
    is_module = name != launch.program or "." in name or bool(launch.options.keys() & {"m", "module"})
    return name if is_module and "/" not in name and " " not in name else ""


def _source(folders: Folders, start: Start, launch: Launch, configuration: Configuration) -> ProgramSource:
    follower = Follower(folders, start, time.monotonic() + READING_S)
    follower.follow([start.script])
    named = list(named_code(folders, start.finder, launch, configuration))
    followed = follower.follow(file for one in named for file in one.files if follower.is_own(file))
    files = tuple(SourceFile(Source(folders.shown(path)), folders.shown(path), text) for path, text in followed.files.items())
    return ProgramSource(
        files,
        tuple(followed.absent),
        followed.partly,
        files,
        (),
        _libraries_absent(start, followed),
        tuple(followed.computed),
        tuple(followed.unreadable),
        tuple(_not_understood(named)),
    )


def _libraries_absent(start: Start, followed: Followed) -> tuple[str, ...]:
    packages = dict.fromkeys(module.partition(".")[0] for module in followed.libraries)
    return tuple(name for name in packages if start.finder.find(name) is None)


def _not_understood(named: list[NamedCode]) -> Iterator[str]:
    for one in named:
        if one.because:
            yield f"{f'--{one.name} ' if one.name else ''}{one.value} ({one.because})"
