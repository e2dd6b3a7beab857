"""Which folders the planned job would use: named by the user, in the command, its files, and the environment."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from unhang.check.storage.storage import JobPath
from unhang.findings import Evidence, Source
from unhang.host.machine import Machine
from unhang.knowledge.job.job_paths import PathRow, names_of_paths
from unhang.knowledge.job.versions import version_numbers
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.launch import ConfigFile, Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings.configuration_files import configuration_of

MAX_PLACES = 24


def find_job_paths(machine: Machine, plan: PlannedJob) -> tuple[JobPath, ...]:
    """Every path once; the current folder where nothing says where logs or checkpoints go."""
    launch = parse_command(plan.command)
    configuration, _ = configuration_of(machine, launch)
    found: dict[tuple[str, bool], JobPath] = {}  # a folder that is read and written is two places
    for place in (
        *(JobPath(path, "named", Evidence(Source("command"), f"--path {path}")) for path in plan.paths),
        *_of_command(launch),
        *(place for file in configuration.files for place in _of_file(file)),
        *(place for file in configuration.files for place in _inside_the_dump_folder(file)),
        *_of_environment(machine.environment, plan),
        *_default_dumps(machine, plan),
    ):
        path = _absolute(machine, place.path)
        if path:
            absolute = JobPath(path, place.use, place.evidence)
            found.setdefault((path, absolute.written), absolute)
    places = list(found.values())[:MAX_PLACES]
    if not any(place.use in ("checkpoints", "logs", "named") for place in places):
        places.append(JobPath(machine.folder, "current"))
    return tuple(places)


def _of_command(launch: Launch) -> Iterator[JobPath]:
    for name, row in names_of_paths("argument"):
        if name in launch.arguments:
            value = launch.arguments[name]
            yield from _place(row, value, Evidence(Source("command"), f"--{name} {value}"))
    if "log_dir" in launch.options:
        value = launch.options["log_dir"]
        yield JobPath(value, "logs", Evidence(Source("command"), f"--log_dir {value}"))


def _of_file(file: ConfigFile) -> Iterator[JobPath]:
    for name, row in names_of_paths("argument"):
        value = file.get(name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield from _place(row, one, Evidence(Source(file.path), f"{name}: {one}"))


def _inside_the_dump_folder(file: ConfigFile) -> Iterator[JobPath]:
    """A log below the folder of checkpoints, as torchtitan writes it where a switch says so."""
    base = file.get("job.dump_folder") or file.get("dump_folder")
    if isinstance(base, str) and "://" not in base and file.get("metrics.enable_tensorboard") is True:
        below = str(file.get("metrics.save_tb_folder", "tb"))
        evidence = Evidence(Source(file.path), f"metrics.enable_tensorboard: true, save_tb_folder: {below}")
        yield JobPath(posixpath.join(base, below), "logs", evidence)


def _of_environment(environment: Mapping[str, str], plan: PlannedJob) -> Iterator[JobPath]:
    for name, row in names_of_paths("environment"):
        if value := environment.get(name, ""):
            yield from _place(row, value, Evidence(plan.set_at(name), f"{name}={value}"))


def _default_dumps(machine: Machine, plan: PlannedJob) -> Iterator[JobPath]:
    """Where torch writes its dumps when nobody says: ``/tmp`` up to 2.6, then its folder of the user's cache."""
    environment = machine.environment
    version = version_numbers(plan.assume.get("torch") or machine.installed("torch"))
    if version is None or any(environment.get(name) for name, _ in names_of_paths("environment", "dumps")):
        return
    home = environment.get("HOME", "")
    cache = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    folder = "/tmp" if version < (2, 7) else f"{cache}/torch" if cache else ""
    if folder:
        yield JobPath(folder, "dumps")


def _place(row: PathRow, value: str, evidence: Evidence) -> Iterator[JobPath]:
    """Nothing for addresses (``s3://…``) and, of data, for what may as well be the name of a data set on a hub."""
    if "://" in value or value in ("", "true") or (row.use == "data" and not value.startswith(("/", ".", "~"))):
        return
    yield JobPath(posixpath.dirname(value) or "." if row.stem else value, row.use, evidence)


def _absolute(machine: Machine, path: str) -> str:
    """Empty where the path needs a value only the job's shell has."""
    if path.startswith("~/"):
        path = posixpath.join(machine.environment.get("HOME", "~"), path[2:])
    return "" if path.startswith("~") or "$" in path else posixpath.normpath(posixpath.join(machine.folder, path))
