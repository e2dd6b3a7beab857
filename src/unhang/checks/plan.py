"""What the user asked ``unhang check`` about: the command that is planned, versions to assume, paths of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """``command``: the words after ``--``, empty when none were given. ``assume``: versions by package, which count
    instead of those installed. ``paths``: folders the job will write to or read from, as far as the user named them.
    """

    command: tuple[str, ...] = ()
    assume: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
