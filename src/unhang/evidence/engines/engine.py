"""What an engine is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from unhang.evidence.engines.tasks import ReadTask
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.file_names import rank_from_name
from unhang.findings import Source, Unread


class Engine(Protocol):
    """Runs tasks. What it started is ended by ``close``, whatever happened."""

    def workers(self) -> int:
        """How many tasks are read at the same time."""

    def run(self, tasks: Sequence[ReadTask]) -> Iterator[tuple[ReadTask, EvidencePart]]:
        """What each of ``tasks`` gave, as they are done; one whose reader ended comes back in pieces."""

    def close(self) -> None:
        """End what was started; waits no longer than some seconds."""


def lost_part(task: ReadTask, reason: str) -> EvidencePart:
    """What is left to say of the one file of ``task``, which could not be read."""
    [(_, file)] = task.files
    part = EvidencePart(seen={file.name})
    part.evidence.unread.append(Unread(Source(file.name), reason, rank_from_name(file.name), lost=True))
    return part
