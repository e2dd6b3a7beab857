"""Versions of what the job would run with: torch, the NCCL it ships, and the libraries around them.

Packages are asked for by their metadata; nothing is imported. Versions the user assumes count before installed
ones, and these before what the project asks for, which counts only where it asks for one release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import SpecifierSet

from unhang.check.environment.environment import Versions
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge.job.versions import VersionRow, rows_affecting, version_matches, version_numbers, version_rows
from unhang.program.collect_program import program_in_launch
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.launch_entry import find_launch_entry, pinning_folders
from unhang.program.imports.version_pins import VersionPin, find_version_pins
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import Text, say

NAME = "versions"
LIMIT_S = 10.0
PACKAGES = ("torch", "transformers", "accelerate", "deepspeed", "trl", "datasets", "lightning", "webdataset", "vllm")
NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


@dataclass(slots=True)
class _Found:
    of: dict[str, str] = field(default_factory=dict)
    origin: dict[str, Text] = field(default_factory=dict)
    allowed: dict[str, tuple[str, str]] = field(default_factory=dict)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Every version that can be known."""
    found = _Found()
    for package in PACKAGES:
        version = machine.installed(package)
        if version:
            found.of[package] = version
    _assume(plan, found)
    _asked_for(_pins(machine, plan), found)
    _nccl_of(machine, found)
    because = None if "torch" in found.of else _no_torch(machine, found)
    how = "" if because is None else "unhang check --assume torch=2.8"
    yield Versions, InspectionResult(Versions(found.of, found.origin, found.allowed), because, how)


def _assume(plan: PlannedJob, found: _Found) -> None:
    for package, version in plan.assume.items():
        if found.of.get(package) != version:
            found.of[package], found.origin[package] = version, say("assumed")


def _no_torch(machine: Machine, found: _Found) -> Text:
    if "torch" not in found.allowed:
        return say("torch is not installed with unhang") if machine.site is None else say("torch is not installed")
    allowed, place = found.allowed.pop("torch")
    return say("torch is not installed, and {place} allows {allowed}", place=place, allowed=allowed)


def _pins(machine: Machine, plan: PlannedJob) -> Mapping[str, VersionPin]:
    """What the project of the command asks for; nothing without a command."""
    if not plan.command:
        return {}
    folders = FolderListing(machine)
    program = program_in_launch(parse_command(plan.command))
    script = find_launch_entry(folders, program, plan.command, machine.environment).script if program else ""
    return find_version_pins(folders, pinning_folders(folders, script, machine.asked_in or machine.folder))


def _asked_for(pins: Mapping[str, VersionPin], found: _Found) -> None:
    known = {row.package for row in version_rows()}
    for package, pin in pins.items():
        if package in found.of or package not in {*PACKAGES, *known}:
            continue
        if pin.release:
            found.of[package] = pin.release
            found.origin[package] = say(
                "pinned in {path} line {line}, not installed here", path=pin.path, line=pin.line
            )
        elif package == "torch" or any(_may_be(row, pin) for row in version_rows() if row.package == package):
            found.allowed[package] = (pin.allowed, f"{pin.path}:{pin.line}")


def _may_be(row: VersionRow, pin: VersionPin) -> bool:
    """A release that ``pin`` allows has the defect of ``row``: tried with those at the edges of both."""
    if row.kind not in ("bad", "unverified") or not (row.introduced or row.fixed):
        return False
    allowed: SpecifierSet = pin.requirement.specifier
    edges = ("0", row.introduced, *(one.version.removesuffix(".*") for one in allowed))
    return any(
        version_matches(row.affects, numbers) and allowed.contains(edge, prereleases=True)
        for edge in edges
        if edge and (numbers := version_numbers(edge))
    )


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
