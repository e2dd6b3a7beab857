"""Environment variables the planned job would see, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable. ``origin``: ``environment``, ``command``, or a file's path; ``line`` counts from 1 in files."""

    name: str
    value: str
    origin: str = "environment"
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """``in_force`` by name; ``shadowed``: (in force, set elsewhere to another value and without effect)."""

    in_force: Mapping[str, Setting]
    shadowed: tuple[tuple[Setting, Setting], ...] = ()

    def value(self, name: str) -> str | None:
        """The value of ``name``, None when it is not set."""
        setting = self.in_force.get(name)
        return None if setting is None else setting.value
