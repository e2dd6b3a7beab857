"""Folders of the machine, each listed once: finding modules asks the same ones again and again."""

from __future__ import annotations

import posixpath

from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine


class FolderListing:
    """Absolute paths in, answers out. Relative ones start at the folder of the job."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._names: dict[str, frozenset[str] | None] = {}

    def absolute(self, path: str) -> str:
        """``path`` without ``..``, as seen from the folder of the job."""
        return posixpath.normpath(posixpath.join(self.machine.folder, path))

    def shown(self, path: str) -> str:
        """As people name it: relative where it lies below the folder of the job."""
        below = self.machine.folder.rstrip("/") + "/"
        return path.removeprefix(below)

    def shown_as_asked(self, path: str) -> str:
        """As seen from the folder that the command is given in, for files of the project that no process opens."""
        return path.removeprefix(f"{(self.machine.asked_in or self.machine.folder).rstrip('/')}/")

    def names(self, folder: str) -> frozenset[str] | None:
        """What lies in ``folder``; None where it is none, or may not be listed."""
        if folder not in self._names:
            found = self.machine.entries(folder).found
            self._names[folder] = None if found is None else frozenset(found)
        return self._names[folder]

    def is_folder(self, path: str) -> bool:
        """Listed by its parent first: most of what is asked for is not there."""
        inside = self.names(posixpath.dirname(path))
        return (inside is None or posixpath.basename(path) in inside) and self.names(path) is not None

    def is_file(self, path: str) -> bool:
        """``path`` stands in its folder and is none itself."""
        inside = self.names(posixpath.dirname(path))
        return inside is not None and posixpath.basename(path) in inside and not self.is_folder(path)

    def read(self, path: str) -> InspectionResult[str]:
        """The text of a file."""
        return self.machine.read(path)
