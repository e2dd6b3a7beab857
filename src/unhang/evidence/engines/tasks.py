"""Files in tasks of about the same cost: a big file is a task alone, small ones go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from unhang import __version__
from unhang.evidence.found_files import FoundFile, FoundFiles
from unhang.evidence.read_limits import ReadLimits

if TYPE_CHECKING:
    from unhang.evidence.objects.listing import FoundObject

TASKS_A_WORKER = 4
"""More of few files would even out better who is done last, and cost more for each."""
MOST = 128 << 20
"""What a task costs at most: progress is seen in seconds, and little is lost with a worker. Each costs milliseconds."""
FILE_COST = 1 << 18
"""What a file costs beside its bytes, in bytes: finding out what it is."""

Found: TypeAlias = "FoundFile | FoundObject"
PlacedFile: TypeAlias = "tuple[int, Found]"
"""A file or object, and its place in what was found."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Files that one worker reads in one go.

    ``log_bytes``: how much of logs is to be read, by name, where the manifest of their bundle tells.
    """

    files: tuple[PlacedFile, ...]
    limits: ReadLimits
    log_bytes: Mapping[str, int]
    version: str = __version__

    @property
    def place(self) -> int:
        """Of its first file."""
        return self.files[0][0]

    @property
    def size(self) -> int:
        """Of all its files, in bytes."""
        return sum(max(0, file.size) for _, file in self.files)  # -1: its server does not say

    def found(self) -> FoundFiles:
        """Its files, as if these alone had been found."""
        return FoundFiles(files=[file for _, file in self.files])

    def only(self, files: Sequence[PlacedFile]) -> ReadTask:
        """A task of some of its files."""
        cut = {file.name: self.log_bytes[file.name] for _, file in files if file.name in self.log_bytes}
        return ReadTask(tuple(files), self.limits, cut, self.version)

    def singles(self) -> list[ReadTask]:
        """Its files, each as a task of its own."""
        return [self.only([one]) for one in self.files]


def tasks_of(files: Sequence[PlacedFile], workers: int) -> list[list[PlacedFile]]:
    """``files`` (with their places) in runs of about the same cost, in their order: four a worker, or more."""
    whole = sum(map(_cost, files))
    fair = max(1, min(MOST, -(-whole // (workers * TASKS_A_WORKER))))
    tasks: list[list[PlacedFile]] = []
    left = 0
    for one in files:
        cost = _cost(one)
        if left <= 0 or cost >= fair:
            tasks.append([])
            left = fair
        tasks[-1].append(one)
        left -= cost
    return tasks


def _cost(one: PlacedFile) -> int:
    return max(0, one[1].size) + FILE_COST
