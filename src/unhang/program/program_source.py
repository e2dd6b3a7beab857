"""The program that will train, as source: its script, what that imports, and the code its arguments name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unhang.evidence.items import SourceFile
from unhang.findings import Evidence, Source
from unhang.program.launch.launch import Configuration


@dataclass(frozen=True, slots=True)
class UntakenBranch:
    """A branch that this launch never takes: ``test`` on ``line`` always says ``truth``, because of ``settings`` (name,
    value, place). ``lines``: the first and last of what is left out."""

    path: str
    line: int
    test: str
    truth: bool
    lines: tuple[int, int]
    settings: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CertainStop:
    """``text`` on ``line``: every run of this launch comes to it and ends, because of ``settings`` (name, value,
    place). ``known``: the names of a table that lacks the one asked for."""

    path: str
    line: int
    function: str
    text: str
    settings: tuple[tuple[str, str, str], ...]
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineCall:
    """A call that configures a training engine. ``given``: by keyword, as far as known, else UNKNOWN; ``**`` where it
    unpacks something."""

    name: str
    evidence: Evidence
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProcessGroupTimeout:
    """A call that makes a process group. ``seconds``: None where it gives no limit (``default_s`` then) or an unknown
    one."""

    call: str
    source: Source
    line_text: str
    given: str
    """The limit as it is written; empty where it gives none."""
    seconds: float | None
    guarded: bool = False
    """Only where there is no group yet: below a test of ``is_initialized``."""
    default_s: float = 600.0


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """The user's own files and, apart from them, those of training libraries that they call."""

    files: tuple[SourceFile, ...] = ()
    """The script first; as this launch runs them: lines of branches it never takes are blank."""
    absent: tuple[str, ...] = ()
    """Imports that led neither to a file nor to an installed library."""
    partly: bool = False
    """More files are imported than were read."""
    whole: tuple[SourceFile, ...] = ()
    """``files`` as they stand on the disk."""
    libraries: tuple[SourceFile, ...] = ()
    """Files of training libraries, as far as names of theirs are used."""
    libraries_absent: tuple[str, ...] = ()
    """Training libraries that are called and not installed here."""
    computed: tuple[str, ...] = ()
    """Places that import what only running tells."""
    unreadable: tuple[str, ...] = ()
    """Files that are there and could not be read, or are no Python."""
    not_understood: tuple[str, ...] = ()
    """Arguments that must name code, and lead to none."""
    left_out: tuple[UntakenBranch, ...] = ()
    """Branches that this launch never takes."""
    stops: tuple[CertainStop, ...] = ()
    """Where the launch is sure to end itself."""
    limits: tuple[ProcessGroupTimeout, ...] = ()
    """Calls in ``files`` that make process groups, and the limits they give them."""
    entered: tuple[str, ...] = ()
    """Files that something else calls into: the script, and code that arguments name."""
    unreached: int = 0
    """Functions that nothing this launch runs ever names; their bodies are blank in ``files``."""
    defaults: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """What settings are where nobody sets them, with the place (``file:line``) that says so."""
    engine_calls: tuple[EngineCall, ...] = ()
    configuration: Configuration = field(default_factory=Configuration)
    """Of those calls."""
