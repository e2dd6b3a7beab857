"""The folders the planned job would use, what they lie on, and how fast that answered."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from unhang.findings import Evidence

WRITTEN_USES = ("checkpoints", "logs", "dumps", "current", "named")
READ_USES = ("data", "named")


@dataclass(frozen=True, slots=True)
class JobPath:
    """One path of the job. ``use``: ``checkpoints``, ``logs``, ``dumps``, ``data``; ``named`` where the user
    gave it and did not say for what; ``current`` for the folder the job starts in where nothing names another one.

    ``folder`` is the one that was looked at: the path itself, or the nearest folder above it that is there.
    """

    path: str
    use: str
    evidence: Evidence | None = None
    folder: str = ""
    exists: bool = False
    writable: bool = False
    size: int = 0
    free: int = 0
    files_free: int | None = None
    """None where the file system does not count them."""
    type: str = ""
    """As ``/proc/self/mountinfo`` writes it; empty when it is not known."""
    mount: str = ""
    device: str = ""
    trouble: str = ""
    """Why it could not be looked at."""
    hung: bool = False
    """The inspection did not come back."""

    @property
    def written(self) -> bool:
        """The job writes there."""
        return self.use in WRITTEN_USES


@dataclass(frozen=True, slots=True)
class StorageMeasurement:
    """One step on one folder. ``step``: ``appends``, ``write``, ``files``, ``reads``; ``seconds`` of each operation (of
    the whole for ``write``).
    """

    step: str
    folder: str
    device: str
    seconds: tuple[float, ...] = ()
    bytes: int = 0
    trouble: str = ""
    """What the system said when it refused."""
    hung: bool = False

    @property
    def typical_s(self) -> float:
        """The median of ``seconds``."""
        return statistics.median(self.seconds)

    @property
    def bytes_per_s(self) -> float | None:
        """None when nothing was measured."""
        total = sum(self.seconds)
        return self.bytes / total if total > 0 and self.bytes else None


@dataclass(frozen=True, slots=True)
class Storage:
    """``places`` by order of their naming; ``measured`` once a file system and step; ``left``: folders whose turn did
    not come. ``memory_free``: bytes free in ``/dev/shm``.
    """

    places: tuple[JobPath, ...] = ()
    measured: tuple[StorageMeasurement, ...] = ()
    left: tuple[str, ...] = ()
    memory_free: int = 0

    def of(self, step: str) -> tuple[StorageMeasurement, ...]:
        """What was measured of one step; what was refused or hung is left out."""
        return tuple(one for one in self.measured if one.step == step and one.seconds)

    def places_on(self, measured: StorageMeasurement) -> tuple[JobPath, ...]:
        """The paths a measurement speaks for."""
        uses = READ_USES if measured.step == "reads" else WRITTEN_USES
        return tuple(place for place in self.places if place.device == measured.device and place.use in uses)

    @property
    def bytes_written(self) -> int:
        """By all steps together."""
        return sum(one.bytes for one in self.measured if one.step != "reads")
