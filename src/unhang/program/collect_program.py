"""The source of the program that will train: script, imports, and code that arguments name. Nothing is run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge.job.launch_commands import training_command
from unhang.program.imports.code_in_arguments import NamedCode, modules_started, named_code
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.import_graph import FollowedImports, ImportFollower
from unhang.program.imports.launch_entry import LaunchEntry, find_launch_entry
from unhang.program.imports.library_entry_files import reached_library_files
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.paths.certain_stops import find_certain_stops
from unhang.program.program_source import ProgramSource, UntakenBranch
from unhang.program.settings.branch_conditions import modules_named_by_settings, without_untaken_branches
from unhang.program.settings.configuration_files import configuration_of
from unhang.program.settings.engine_calls import configuration_in_calls, find_engine_calls
from unhang.program.settings.model_size import ModelSize, find_model_size
from unhang.program.settings.option_values import OptionValues, undeclared_arguments, unique_defaults
from unhang.program.settings.process_group_timeouts import find_group_timeouts
from unhang.program.settings.program_settings import ProgramSettings, read_program_settings
from unhang.program.syntax.unreferenced_functions import without_unreached_functions
from unhang.sentences import say

NAME = "program"
LIMIT_S = 60.0
READING_S = 40.0
"""Of that for reading; what was not read by then is said to be missing."""
NEEDS = ("environment", "limits", "configuration", "timers")
_READ: WeakKeyDictionary[Machine, tuple[tuple[str, ...], InspectionResult[ProgramSource]]] = WeakKeyDictionary()
"""The last answer for each machine: several checks ask for the same source."""


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Read the script, what it imports, and the code that its arguments name; the size of the model that it trains."""
    source, launch = read_program_source(machine, plan.command), parse_command(plan.command)
    program, configuration = source.found or ProgramSource(), configuration_of(machine, launch)[0]
    yield ProgramSource, source
    yield ModelSize, find_model_size(machine, launch, configuration, program)


def read_program_source(machine: Machine, command: tuple[str, ...]) -> InspectionResult[ProgramSource]:
    """The source of the program that ``command`` starts."""
    known = _READ.get(machine)
    if known is None or known[0] != command:
        known = _READ[machine] = (command, _read(machine, command))
    return known[1]


def _read(machine: Machine, command: tuple[str, ...]) -> InspectionResult[ProgramSource]:
    launch = parse_command(command)
    if not command:
        because = say("no command was given, so the program is not known")
        return InspectionResult(because=because, how="unhang check -- torchrun --nproc-per-node 8 train.py")
    program = program_in_launch(launch)
    if not program:
        because = say("unhang did not find the script that {program} starts", program=launch.program or command[0])
        return InspectionResult(because=because, how="unhang check -- torchrun --nproc-per-node 8 SCRIPT.py")
    folders = FolderListing(machine)
    start = find_launch_entry(folders, program, command, machine.environment)
    if not start.script:
        if not program.endswith(".py"):
            return InspectionResult(because=say("{module} is neither in this folder nor installed", module=program))
        refused = machine.read(folders.absolute(program)).because
        return InspectionResult(because=refused or say("{path} does not exist", path=program))
    configuration, unread = configuration_of(machine, launch)
    return InspectionResult(_source(folders, start, launch, configuration, unread=unread is not None))


def program_in_launch(launch: Launch) -> str:
    """``train.py`` as it stands in the command, or the name of a module; empty where it starts neither."""
    name = launch.program.removeprefix("-m ")
    if name.endswith(".py"):
        return name
    if (row := training_command(name, launch.argv[0] if launch.argv else "")) is not None:
        return row.module.replace("{verb}", launch.argv[0])
    is_module = name != launch.program or "." in name or bool(launch.options.keys() & {"m", "module"})
    return name if is_module and "/" not in name and " " not in name else ""


def _source(
    folders: FolderListing, start: LaunchEntry, launch: Launch, configuration: Configuration, *, unread: bool
) -> ProgramSource:
    follower = ImportFollower(folders, start, time.monotonic() + READING_S, launch.argv)
    follower.follow([start.script])
    named = list(named_code(folders, start.finder, launch, configuration))
    started = _started(follower, start, launch)
    followed = follower.follow(file for one in named for file in one.files if follower.is_own(file))
    libraries = tuple(_file(folders, path, text) for path, text in reached_library_files(follower).items())
    values = OptionValues(launch, configuration, unread, folders.machine.environment)
    live = _live(folders, followed)
    settings = read_program_settings(live, libraries, values)
    by_setting = [start.finder.find(name) for name in modules_named_by_settings(live, settings)]
    more = [file for found in by_setting if found is not None for file in found.files if follower.is_own(file)]
    if any(file not in followed.files for file in more):
        live = _live(folders, follower.follow(more))
        settings = read_program_settings(live, libraries, values)
    files, left_out = without_untaken_branches(live, settings)
    if left_out:  # what is never run changes no setting either
        settings = read_program_settings(files, libraries, values)
        files, more_left_out = without_untaken_branches(files, settings)
        left_out += more_left_out
    entered = {folders.shown(file) for one in named for file in one.files}
    entered |= {folders.shown(file) for file in (start.script, *started)}
    files, unreached = without_unreached_functions(files, entered)
    calls = tuple(find_engine_calls(files, settings))
    return ProgramSource(
        files=files,
        absent=tuple(followed.absent),
        partly=followed.partly,
        whole=tuple(_file(folders, path, text) for path, text in followed.files.items()),
        libraries=libraries,
        libraries_absent=_libraries_absent(start, followed),
        computed=tuple(place for place in followed.computed if not _is_left_out(place, left_out)),
        unreadable=tuple(followed.unreadable),
        not_understood=tuple(_not_understood(named, settings, launch, followed)),
        left_out=left_out,
        stops=find_certain_stops(files, settings),
        limits=tuple(find_group_timeouts(files, settings)),
        entered=tuple(sorted(entered)),
        unreached=unreached,
        defaults=unique_defaults(settings.declared, settings.names.changed),
        engine_calls=calls,
        configuration=configuration_in_calls(folders.machine, launch, calls),
    )


def _started(follower: ImportFollower, start: LaunchEntry, launch: Launch) -> list[str]:
    """Files of the program that it starts as modules of their own, with what they import."""
    names = modules_started(follower.done.files, launch.words)
    found = [one for one in map(start.finder.find, names) if one is not None and not one.rest]
    files = [one.files[-1] for one in found if one.files and follower.is_own(one.files[-1])]
    follower.follow(files)
    return files


def _live(folders: FolderListing, followed: FollowedImports) -> tuple[SourceFile, ...]:
    """The files without what no run of them would do."""
    return tuple(_file(folders, path, text) for path, text in followed.live.items())


def _is_left_out(place: str, left_out: tuple[UntakenBranch, ...]) -> bool:
    path, _, line = place.rpartition(":")
    return any(one.path == path and one.lines[0] <= int(line) <= one.lines[1] for one in left_out)


def _file(folders: FolderListing, path: str, text: str) -> SourceFile:
    return SourceFile(Source(folders.shown(path)), folders.shown(path), text)


def _libraries_absent(start: LaunchEntry, followed: FollowedImports) -> tuple[str, ...]:
    packages = dict.fromkeys(module.partition(".")[0] for module in followed.libraries)
    return tuple(name for name in packages if start.finder.find(name) is None)


def _not_understood(
    named: list[NamedCode], settings: ProgramSettings, launch: Launch, followed: FollowedImports
) -> Iterator[str]:
    yield from (f"{launch.argv[0]} ({place}: not found)" for place in followed.no_subcommand)
    for one in named:
        if one.because:
            yield f"{f'--{one.name} ' if one.name else ''}{one.value} ({one.because})"
    for name, near in undeclared_arguments(settings.declared, launch):
        yield f"--{name}" + (f" (--{near}?)" if near else "")
