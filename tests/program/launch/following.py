"""A folder with files in it, and what following a command from there leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unhang.host.machine import Machine
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.follow_command import follow_command
from unhang.program.launch.launch import FollowedLaunch, Launch
from unhang.program.launch.planned_job import PlannedJob


@dataclass(frozen=True)
class Way:
    """Where a command led."""

    command: str
    launch: Launch
    told: FollowedLaunch
    machine: Machine

    @property
    def environment(self) -> dict[str, str]:
        """What the way sets."""
        return {name: setting.value for name, setting in self.told.environment.items()}

    @property
    def notes(self) -> list[str]:
        """What was not understood, with its place."""
        return [
            f"{one.source.path}:{one.source.line} {one.what}" if one.source else str(one.what)
            for one in self.told.not_understood
        ]


def follow(folder: Path, files: Mapping[str, str], *command: str, **environment: str) -> Way:
    """Follow ``command`` in a folder ``/job`` that holds ``files``, with ``environment`` around it."""
    for name, text in files.items():
        path = folder / (name.lstrip("/") if name.startswith("/") else f"job/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine = Machine(folder, environment)
    machine.folder = "/job"
    seen, plan = follow_command(machine, PlannedJob(command))
    assert plan.followed is not None
    return Way(" ".join(plan.command), parse_command(plan.command), plan.followed, seen)
