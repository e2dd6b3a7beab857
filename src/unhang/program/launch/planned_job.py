"""What the user asked ``unhang check`` about: the command that is planned, versions to assume, paths of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.findings import Source
from unhang.program.launch.launch import FollowedLaunch


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """``command``: the words after ``--``, empty when none were given. ``assume``: versions by package, which count
    instead of those installed. ``paths``: folders the job will write to or read from, as far as the user named them.
    """

    command: tuple[str, ...] = ()
    assume: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    followed: FollowedLaunch | None = None
    """How ``command`` was found in the words that the user typed; None: these are they."""

    def set_at(self, name: str) -> Source:
        """Where a variable of the job is set: in a script on the way to the program, or in this shell."""
        setting = self.followed.environment.get(name) if self.followed is not None else None
        return Source("environment") if setting is None else Source(setting.origin, setting.line)
