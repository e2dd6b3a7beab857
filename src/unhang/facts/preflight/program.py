"""The program that will train, as source: its script and the files beside it that it imports."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import SourceFile


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """``files``: the script first. ``absent``: imports that led neither to a file nor to an installed library.
    ``partly``: more files are imported than were read."""

    files: tuple[SourceFile, ...] = ()
    absent: tuple[str, ...] = ()
    partly: bool = False
