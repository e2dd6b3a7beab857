"""Public incidents whose cause was established (``incidents/*.toml``): what was seen, what it was, what ended it.

One file a cause, rows sorted by id; adding one needs no code. They are read when somebody asks, never before.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Literal

import msgspec

from unhang.findings import Cause
from unhang.knowledge.tables import list_toml_files, read_typed

IncidentText = Annotated[str, msgspec.Meta(min_length=3, max_length=400)]
Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.+_-]*$")]
StallPhase = Literal[
    "start", "first-step", "steps", "evaluation", "saving", "end", "between-jobs", "serving", "unknown"
]
StallDelay = Literal["none", "minutes", "hours", "days", "unknown"]
# fmt: off
Operation = Literal[
    "all_reduce", "all_gather", "broadcast", "barrier", "reduce_scatter", "all_to_all", "send", "recv", "gather",
    "store", "init", "object", "none", "unknown",
]
# fmt: on
Backend = Literal["nccl", "gloo", "hccl", "rccl", "mpi", "xla", "oneccl", "none", "unknown"]
NodeCount = Literal["one", "many", "unknown"]


class StallSituation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a stall before anybody knows its cause; ``unknown`` and an empty ``framework`` say nothing."""

    phase: StallPhase = "unknown"
    after: StallDelay = "unknown"
    """How long the job had run well."""
    operation: Operation = "unknown"
    """The collective or wait that was seen hanging."""
    backend: Backend = "unknown"
    nodes: NodeCount = "unknown"
    framework: tuple[Word, ...] = ()
    """Training and launch programs that matter, in lower case."""


class Incident(StallSituation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stall or crash of a distributed job, restated from its public report."""

    id: Word
    link: Annotated[str, msgspec.Meta(pattern=r"^https://\S+$")]
    year: Annotated[int, msgspec.Meta(ge=2015, le=2100)]
    cause: Cause
    signs: Annotated[tuple[IncidentText, ...], msgspec.Meta(min_length=1, max_length=4)]
    """What one sees, in short phrases with the distinctive words of the messages."""
    happened: IncidentText
    fixed: IncidentText
    """What ended it."""
    established: Literal["fix", "reporter", "maintainer", "report"]
    """Who found the cause: a merged fix, the person it happened to, a maintainer, or a published report."""


class IncidentsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file: the day its links were looked at, and its rows."""

    checked: datetime.date
    incident: tuple[Incident, ...]


@cache
def incidents() -> tuple[Incident, ...]:
    """Every incident, cause by cause.

    Raises:
        KnowledgeError: a file is no TOML or a row is not what it must be; the sentence names both.
    """
    return tuple(incident for _, rows in files_by_cause() for incident in rows)


def files_by_cause() -> Iterator[tuple[str, tuple[Incident, ...]]]:
    """The name of each file without its ending, and its rows."""
    for name in list_toml_files("incidents"):
        yield name.removesuffix(".toml"), read_typed(f"incidents/{name}", IncidentsFile, in_english=True).incident
