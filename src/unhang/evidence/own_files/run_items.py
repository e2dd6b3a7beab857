"""What unhang itself wrote beside a job: the manifest of a bundle, the pace of a job that moves, calls it compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.evidence.items import Frame, Signature
from unhang.findings import Source


@dataclass(frozen=True, slots=True)
class MarkedPhase:
    """A phase the program marked. ``at_most_s``: how long it was to take at most; None where nothing was said."""

    label: str
    phase: str
    gone_s: float
    at_most_s: float | None = None


@dataclass(frozen=True, slots=True)
class GuardWait:
    """A wait in a guard of ours. ``ranks``: for whom; empty where it did not know. ``limit_s``: after so long it gives
    up; None where it has no such limit."""

    what: str
    ranks: tuple[int, ...]
    waited_s: float
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A file lock that another process holds. ``started_s``: since when that process runs."""

    path: str
    pid: int
    command: str = ""
    started_s: float | None = None


@dataclass(frozen=True, slots=True)
class EndedChild:
    """A child that has ended while its parent goes on; ``signal`` 0: by itself."""

    pid: int
    signal: int = 0
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class ExternalWaits:
    """What a process waits for outside of the job."""

    peers: tuple[str, ...] = ()
    """``address:port`` of the connection its main thread sleeps on."""
    locks: tuple[HeldLock, ...] = ()
    ended_children: tuple[EndedChild, ...] = ()


NO_EXTERNAL_WAITS = ExternalWaits()


@dataclass(frozen=True, slots=True)
class RankProcess:
    """What a bundle knows of a rank's process."""

    rank: int
    pid: int | None = None
    host: str | None = None
    local_rank: int | None = None
    exit_code: int | None = None
    """None = still alive when the evidence was taken. A signal is negative."""
    killed_by_us: bool = False
    """The recorder ended it after taking the evidence: its exit says nothing."""
    state: str = ""
    """``/proc`` state letter at the stall."""
    ended_s: float | None = None
    moving: bool | None = None
    """Stacks or positions differ between two samples; None: sampled once, or not at all."""
    beats: bool | None = None
    """Our thread in it ran between the samples, so that nothing kept the interpreter lock; None: it has none."""
    terminated_by_launcher: bool = False
    """torchrun itself ended it because a sibling failed: a victim."""
    not_seen: str = ""
    """Why its stack could not be sampled from outside; empty when it was, or nobody tried."""
    idle: bool = False
    """It and its children used neither the processor nor files between the samples."""
    from_record: bool = False
    """Its stack is the one its own record names: of the thread that issues collectives only."""
    marked: MarkedPhase | None = None
    """The phase the program marked (``unhang.phase``) and was in."""
    guard_wait: GuardWait | None = None
    """It waited in a guard, on the store."""
    unanswered: tuple[str, ...] = ()
    """``address:port`` it tried to connect to for as long as it was sampled, without an answer."""
    awaits: ExternalWaits = NO_EXTERNAL_WAITS
    """What it waited for outside of the job, as the kernel told when it was sampled."""
    addresses: tuple[str, ...] = ()
    """Its own, of its connections to other machines, in a job that moved."""
    piled_up: tuple[str, ...] = ()
    """``OWN>OTHER``: addresses between which what it sent stood in its queue most of the time."""
    partner: int | None = None
    """With whom it was in a blocking send or receive, as its own record tells."""
    guessed_rank: bool = False
    """Nothing told its rank: ranks were numbered as their processes started."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """How many members each group has that it is a member of, by name, also of those it has called nothing in."""


@dataclass(slots=True)
class BundleManifest:
    """``bundle.json``: what a recorder of ours wrote beside the evidence (schema ``unhang.bundle/1``)."""

    source: Source
    world_size: int | None
    processes: tuple[RankProcess, ...]
    backend: str = ""
    torch_version: str = ""
    stalled_since_s: float | None = None
    taken_s: float | None = None
    limit_s: float | None = None
    """Collective timeout in force, seconds."""
    source_root: str | None = None
    """Folder in the bundle holding copies of the user's source files, keyed by their path."""
    source_prefix: str | None = None
    """Path the source folder had when the job ran, as stack frames spell it."""
    taken_by: str = ""
    """The command that sampled; empty for the lab's recorder and ``unhang run``."""
    live: bool = False
    """The job went on after the sample; nobody ended it."""
    log_bytes: Mapping[str, int] = field(default_factory=dict)
    """How long its logs were then, by path in the bundle: what was printed later is not of that moment."""
    files: tuple[str, ...] = ()
    """What lay beside it when it was written, by path in the bundle; empty where an earlier release wrote it."""
    cut: tuple[str, ...] = ()
    """Those of them that hold only the beginning of what there was to keep."""


@dataclass(frozen=True, slots=True)
class PacePlace:
    """Where a rank stood in ``share`` of the samples. ``frames`` innermost first, perhaps only the innermost ones;
    ``phase`` is a word of ``findings.Phase``."""

    phase: str
    share: float
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class RankPace:
    """One rank of a job that moves. ``waits``: share of the samples in which it stood in communication."""

    rank: int
    steps: tuple[tuple[int, float], ...]
    """(step, mean seconds a step since the one before), oldest first."""
    waits: float
    places: tuple[PacePlace, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job that moves went, and what its ranks did in the last ``samples`` samples."""

    source: Source
    samples: int
    ranks: tuple[RankPace, ...]


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """What one rank called; ``frames`` innermost first, empty where they were not recorded."""

    rank: int
    signature: Signature
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class CallComparison:
    """Calls that differ at one position of a group, and that the job survived; ``times``: at so many positions."""

    source: Source
    group: str
    position: int
    times: int
    calls: tuple[ComparedCall, ...]
    aligned: bool = True
    """The ranks' records overlap before it."""
