"""What is to be taken of the ranks at one moment, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unhang.errors import UnhangError
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.nodes.evidence_gathering import EvidenceGathering
from unhang.watch.process_state.sockets import SendQueues
from unhang.watch.process_state.stack_collection import KernelSample
from unhang.wire.documents.bundle import ExternalWaits
from unhang.wire.documents.verdict_summary import VerdictSummary
from unhang.wire.record_views import RecordView

DEFAULT_SAMPLES, SAMPLE_PAUSE_S = 2, 0.4
"""More of them, and further apart, at a job that moves at somebody's pace."""


@dataclass(slots=True)
class EvidenceRequest:
    """What to take. ``number``: of this run, from 1. ``with_stacks``: dumps name the lines of their collectives.
    ``live``: the ranks can be sampled; otherwise the job has ended. ``samples``: how many, at least two."""

    number: int
    records: Path
    members: Mapping[int, JobRank]
    world_size: int | None
    job_outputs: Mapping[str, str]
    stalled_since_s: float | None
    with_stacks: bool = False
    live: bool = True
    samples: int = DEFAULT_SAMPLES
    sample_pause_s: float = SAMPLE_PAUSE_S
    """Pause between two samples, besides what the samples take."""
    earlier_dumps: bool = False
    machine: Mapping[str, bytes] = field(default_factory=dict)
    """What is known before, by the name of its file in ``machine``; empty where there is nothing to tell."""
    nodes: EvidenceGathering | None = None
    """Evidence of other nodes that is on its way; None where there is none to wait for."""
    command: tuple[str, ...] = ()
    """What was started, and where: it may say where the job saves."""
    cwd: str = ""
    lang: str = "en"
    """Of the text for people."""
    noticed_after_s: float | None = None
    """Of a stall that was spoken of before: so long after its beginning it was."""
    ended_well: bool = False
    """The job is over and its command ended with 0: how its ranks ended is all that is kept."""
    borne_s: float = float("inf")
    """A rank that may wait for something slow is borne so long: then the wait for it counts as a stall."""
    waited_s: float = 0.0
    """So long ranks had waited when this was asked for."""
    before_steps: bool = False
    """No rank has done steps yet."""
    of_moving_job: bool = False
    """Because of its pace or its calls, and not of a wait."""
    leader_number: int | None = None
    """The leader's number of this sample, where another node judges: the evidence is packed at ``pack_for``."""
    pack_for: Path | None = None
    width: int = 80
    """Of the text for people."""
    said: VerdictSummary | None = None
    """The verdict that was printed of this wait: a weaker one does not take its place."""


@dataclass(slots=True)
class SampleResult:
    """What came of it: per rank, whether it answered, its ``/proc`` state, and whether it moved between the samples."""

    answered: set[int] = field(default_factory=set)
    states: dict[int, str] = field(default_factory=dict)
    moving: dict[int, bool] = field(default_factory=dict)
    beats: dict[int, bool] = field(default_factory=dict)
    """Whether a rank's record was written anew between the first and the last moment."""
    idle: set[int] = field(default_factory=set)
    """Ranks that used neither the processor nor files during the sample, nor did their children."""
    not_seen: dict[int, str] = field(default_factory=dict)
    """Why a rank's stack could not be sampled from outside."""
    kernel: dict[int, tuple[KernelSample, ...]] = field(default_factory=dict)
    """All that the kernel tells of those ranks, at two moments."""
    from_record: set[int] = field(default_factory=set)
    """Ranks whose stack is the one their own record names."""
    unanswered: dict[int, frozenset[tuple[str, int]]] = field(default_factory=dict)
    """Addresses that a rank tried to connect to at the first moment and still at the last."""
    awaits: dict[int, ExternalWaits] = field(default_factory=dict)
    """What a rank waited for outside of the job at the last moment."""
    queues: SendQueues | None = None
    """Of a job that moves: between which addresses what it sends piles up."""
    views: dict[int, RecordView] = field(default_factory=dict)
    """Records of the ranks that live, as they were last."""
    log_bytes: dict[str, int] = field(default_factory=dict)
    """How long the logs in the folder were: what a job prints later is not of this moment."""
    taken_s: float = 0.0


class SamplingInterrupted(UnhangError):
    """A rank ended while it was sampled: what an earlier sample found is worth more."""
