"""A wait between two parts of a job: trainers, engines, the driver."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.findings import Evidence, Where


@dataclass(frozen=True, slots=True)
class RoleWait:
    """The part of the job that is ``waiter`` waits for the one that is ``awaited`` to give it ``what``; ``where`` a
    stack shows it."""

    waiter: str
    awaited: str
    what: str
    evidence: Evidence
    where: Where | None = None
