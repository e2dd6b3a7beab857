"""What an engine is, and which there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol

from unhang.evidence.engines.tasks import ReadTask
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.file_names import rank_from_name
from unhang.findings import Source, Unread

_MODULES = {"local": "local", "dask": "dask_cluster", "ray": "ray_cluster"}


class Engine(Protocol):
    """Runs tasks. What it started is ended by ``close``, whatever happened."""

    def workers(self) -> int:
        """How many tasks are read at the same time."""

    def run(self, tasks: Sequence[ReadTask]) -> Iterator[tuple[ReadTask, EvidencePart]]:
        """What each of ``tasks`` gave, as they are done; one whose reader ended comes back in pieces."""

    def close(self) -> None:
        """End what was started; waits no longer than some seconds."""


def start_engine(name: str, address: str, paths: Sequence[str]) -> Engine:
    """The engine ``name``, whose workers can read below ``paths``.

    ``address``: of a cluster that is there; empty: one is started on this machine.

    Raises:
        MissingExtra: its library is not installed.
        UsageError: the cluster cannot be reached, or its workers cannot read for us.
    """
    started: Engine = import_module(f"{__package__}.{_MODULES[name]}").start(address, paths)
    return started


def lost_part(task: ReadTask, reason: str) -> EvidencePart:
    """What is left to say of the one file of ``task``, which could not be read."""
    [(_, file)] = task.files
    part = EvidencePart(seen={file.name})
    part.evidence.unread.append(Unread(Source(file.name), reason, rank_from_name(file.name), lost=True))
    return part
