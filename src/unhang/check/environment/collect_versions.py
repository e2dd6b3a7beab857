"""Versions of what the job would run with: torch, the NCCL it ships, and the libraries around them; and what else the
project of the launch asks for (``knowledge/requirements.toml``), against what is installed.

Packages are asked for by their metadata; nothing is imported. Versions the user assumes count before installed
ones, and these before what the project asks for, which counts only where it asks for one release.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from unhang.check.environment.environment import AskedPackage, MissingNames, OwnChecks, Requirements, Versions
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge.job.versions import VersionRow, rows_affecting, version_rows
from unhang.knowledge.tables import read_table
from unhang.program.collect_program import program_in_launch
from unhang.program.imports.certain_imports import certain_modules
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.launch_entry import LaunchEntry, find_launch_entry, pinning_folders
from unhang.program.imports.missing_names import missing_names
from unhang.program.imports.version_checks import VersionCheck, version_checks
from unhang.program.imports.version_pins import ProjectPins, VersionPin, read_project_pins, without_login
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import Text, say

NAME = "versions"
LIMIT_S = 10.0
PACKAGES = ("torch", "transformers", "accelerate", "deepspeed", "trl", "datasets", "lightning", "webdataset", "vllm")
NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
_INDEX = re.compile(r"^index-url\s*[=:]\s*(\S+)", re.MULTILINE)
TOLD = 8
"""So many packages are named where none of them matters for stalls."""
PASTED = 64  # characters of a command; a longer one is broken into lines that can be pasted


@dataclass(slots=True)
class _Found:
    of: dict[str, str] = field(default_factory=dict)
    origin: dict[str, Text] = field(default_factory=dict)
    allowed: dict[str, tuple[str, str]] = field(default_factory=dict)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Every version that can be known."""
    versions = (
        (package, machine.installed(package) or machine.installed(f"pytorch-{package}")) for package in PACKAGES
    )
    found = _Found({package: version for package, version in versions if version})
    _assume(plan, found)
    project = _project(machine, plan)
    _asked_for(project[1].counting() if project is not None else {}, found)
    _nccl_of(machine, found)
    because = None if "torch" in found.of else _no_torch(machine, found)
    how = "" if because is None else "unhang check --assume torch=2.8"
    yield Versions, InspectionResult(Versions(found.of, found.origin, found.allowed), because, how)
    if project is not None:
        yield Requirements, _requirements(machine, plan, *project)
        if plan.followed is None or not plan.followed.image:
            lost = tuple(missing_names(project[0])) if machine.site is not None else ()
            yield MissingNames, InspectionResult(MissingNames(lost))
            yield OwnChecks, InspectionResult(OwnChecks(tuple(_own_checks(machine, plan, project[0]))))


def _assume(plan: PlannedJob, found: _Found) -> None:
    for package, version in plan.assume.items():
        if found.of.get(package) != version:
            found.of[package], found.origin[package] = version, say("assumed")


def _no_torch(machine: Machine, found: _Found) -> Text:
    if "torch" not in found.allowed:
        return say("torch is not installed with unhang") if machine.site is None else say("torch is not installed")
    allowed, place = found.allowed.pop("torch")
    return say("torch is not installed, and {place} allows {allowed}", place=place, allowed=allowed)


def _asked_for(pins: Mapping[str, VersionPin], found: _Found) -> None:
    known = {row.package for row in version_rows()}
    for package, pin in pins.items():
        if package in found.of or package not in {*PACKAGES, *known}:
            continue
        if pin.release:
            told = say("pinned in {path} line {line}, not installed here", path=pin.path, line=pin.line)
            found.of[package], found.origin[package] = pin.release, told
        elif package == "torch" or any(_may_be(row, pin) for row in version_rows() if row.package == package):
            found.allowed[package] = (pin.allowed, f"{pin.path}:{pin.line}")


def _may_be(row: VersionRow, pin: VersionPin) -> bool:
    """A release that ``pin`` allows has the defect of ``row``."""
    is_defect = row.kind in ("bad", "unverified") and bool(row.introduced or row.fixed)
    return is_defect and not pin.excludes(SpecifierSet(row.affects))


def _nccl_of(machine: Machine, found: _Found) -> None:
    """The NCCL of an installed wheel, unless torch itself is only assumed: then the one that release ships."""
    torch = found.of.get("torch", "")
    if "nccl" in found.of or torch.endswith("+cpu"):
        return
    if "torch" not in found.origin:
        version = next((v for wheel in NCCL_WHEELS if (v := machine.installed(wheel))), "")
        if version:
            found.of["nccl"] = version
            return
    for row in rows_affecting("torch", torch, kinds=("fact",)):
        if row.nccl:
            found.of["nccl"], found.origin["nccl"] = row.nccl, say("ships with torch {version}", version=torch)


# -- what the project of the launch asks for


@cache
def _rows() -> Mapping[str, Any]:
    return read_table("requirements.toml")


def _project(machine: Machine, plan: PlannedJob) -> tuple[LaunchEntry, ProjectPins] | None:
    """Of the launch: where it starts, and what the project around its script asks for; None without a command."""
    if not plan.command:
        return None
    folders = FolderListing(machine)
    program = program_in_launch(parse_command(plan.command))
    start = find_launch_entry(folders, program, plan.command, machine.environment)
    where = pinning_folders(folders, start.script, machine.asked_in or machine.folder)
    python = re.search(r"/python(3\.\d+)/", "/".join(machine.site or ()))
    return start, read_project_pins(folders, where, python[1] if python is not None else "")


def _requirements(
    machine: Machine, plan: PlannedJob, start: LaunchEntry, project: ProjectPins
) -> InspectionResult[Requirements]:
    """What is installed against what is asked for, without extras that nobody asked for; not inside of a container, and
    not where nothing of it is installed: that is another environment than the one the job runs in."""
    if plan.followed is not None and plan.followed.image:
        return InspectionResult(because=say("it depends on what {image} contains", image=plan.followed.image))
    weights = {package: at for at, package in enumerate(_rows()["stalls"])}
    counting = (
        (package, [pin for pin in pins if pin.role not in ("extra", "" if package in weights else "choice")])
        for package, pins in sorted(project.of.items(), key=lambda one: (weights.get(one[0], len(weights)), one[0]))
    )
    asked = {package: pins for package, pins in counting if pins}
    own = {package: canonicalize_name(pins[0].requirement.name) for package, pins in asked.items()}
    versions = {one: plan.assume.get(one) or machine.installed(own[one]) or machine.installed(one) for one in asked}
    judged = [one for one in asked if versions[one] or any(pin.role == "needed" for pin in asked[one])]
    of_stalls = [one for one in judged if one in weights]
    if judged and not any(versions[one] for one in (machine.site is None and of_stalls) or judged):
        because = say("none of the packages that {path} asks for is installed here", path=asked[judged[0]][0].path)
        return InspectionResult(because=because, how="unhang check -- CMD, in the environment the job runs in")
    imported = _imported(machine, start)
    unmet = ((one, pin) for one in judged if (pin := _unmet(asked[one], versions[one])) is not None)
    differing = tuple(_asked(package, pin, versions[package], imported) for package, pin in unmet)
    firm = ((package, [pin for pin in pins if pin.role != "choice"]) for package, pins in asked.items())
    pairs = ((package, *pair) for package, pins in firm for pair in combinations(pins, 2))
    apart = (pair for pair in pairs if pair[1].excludes(pair[2].requirement.specifier))
    contradictions = tuple((_asked(package, one), _asked(package, other)) for package, one, other in apart)
    python = start.installed.python if machine.site is not None else sys.executable
    url = _index(machine, python)
    index = without_login(url)
    first = [one for one in differing if one.stalls or one.imported] or differing[:TOLD]
    install = _install(start.finder.folders, python, first, url if url == index else "")
    unread = say("{paths} cannot be read", paths=", ".join(project.unread)) if project.unread else None
    found = Requirements(python, len(judged), differing, contradictions, install, index if url != index else "")
    return InspectionResult(found, unread)


def _unmet(pins: Sequence[VersionPin], version: str) -> VersionPin | None:
    """The first that ``version`` does not meet; where files contradict each other, or are for different purposes, it is
    enough that it meets one of them."""
    if not version:
        needed = [pin for pin in pins if pin.role == "needed"]
        return next((pin for pin in needed if pin.allowed), needed[0])
    met = [pin.requirement.specifier for pin in pins if pin.allowed and pin.allows(version)]
    for pin in pins:
        if not pin.allows(version) and not any(pin.role == "choice" or pin.excludes(one) for one in met):
            return pin
    return None


def _asked(
    package: str, pin: VersionPin, version: str = "", imported: Mapping[str, tuple[str, bool]] = {}
) -> AskedPackage:
    rows = _rows()
    stalls, module = package in rows["stalls"], rows["modules"].get(package, package.replace("-", "_"))
    name = package if pin.requirement.name == "pytorch" else pin.requirement.name
    asked = f"{name} @ {pin.allowed}" if pin.requirement.url else f"{name}{pin.allowed}"
    place, is_there = imported.get(module) or imported.get(pin.requirement.name.replace("-", "_"), ("", True))
    place = place if pin.is_for_another_major(version) or not (version or is_there) else ""
    where = f"{pin.path}:{pin.line}"
    return AskedPackage(name, asked, where, version, stalls, package in rows["compiled"], module, place)


def _own_checks(machine: Machine, plan: PlannedJob, start: LaunchEntry) -> Iterator[VersionCheck]:
    """What the program itself demands of releases, against what is installed."""
    packages = {module: package for package, module in _rows()["modules"].items()}

    def release(module: str) -> str:
        names = (module, packages.get(module, ""), module.replace("_", "-"))
        return next((found for one in names if one and (found := plan.assume.get(one) or machine.installed(one))), "")

    return version_checks(start, release)


def _imported(machine: Machine, start: LaunchEntry) -> dict[str, tuple[str, bool]]:
    """Modules that the script, or what it imports of the project, imports in any case, with the place and whether they
    lead anywhere, as far as the interpreter is known. A program that changes its own path is not judged."""
    found: dict[str, tuple[str, bool]] = {}
    for one in certain_modules(start):
        if "sys.path" in one.text:
            return {}
        for needed in (needed for needed in one.imports if needed.package):
            place = f"{start.finder.folders.shown_as_asked(one.path)}:{needed.line}"
            is_there = machine.site is None or start.finder.find(needed.module) is not None
            found.setdefault(needed.package, (place, is_there))
    return found


def _install(folders: FolderListing, python: str, asked: Sequence[AskedPackage], index: str) -> str:
    """The command that installs it from ``index`` (empty: as pip is set), for ``python`` in any case."""
    places = folders.machine.environment.get("PATH", "").split(":")
    first = next((place for place in places if place and folders.is_file(f"{place}/pip")), "")
    words = ["pip"] if first in ("", posixpath.dirname(python)) else [python, "-m", "pip"]
    builds = {one.asked.partition("+")[2].partition(",")[0] for one in asked if one.name == "torch"} - {""}
    wheels = [f"--extra-index-url={_rows()['wheels'].format(build=build)}" for build in builds]
    line = shlex.join([*words, "install", *(["-i", index] if index else []), *wheels])
    parts = [line, *(f"'{one.asked}'" for one in asked)]
    return (" " if sum(map(len, parts)) < PASTED else " \\\n    ").join(parts)


def _index(machine: Machine, python: str) -> str:
    """What pip is set to: by a variable, else by the first of its files that names one; empty where nothing does."""
    told, prefix = machine.environment, posixpath.dirname(posixpath.dirname(python))
    home = told.get("HOME", "")
    user = (f"{told.get('XDG_CONFIG_HOME') or f'{home}/.config'}/pip/pip.conf", f"{home}/.pip/pip.conf")
    files = (told.get("PIP_CONFIG_FILE"), f"{prefix}/pip.conf", *user, "/etc/xdg/pip/pip.conf", "/etc/pip.conf")
    named = (found[1] for path in files if path and (found := _INDEX.search(machine.text(path))))
    return told.get("PIP_INDEX_URL") or next(named, "")
