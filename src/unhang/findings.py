"""The words every room shares: sources, evidence, findings, remedies, verdicts.

Texts are :class:`Text` (an English template and its values), for any language. Ranks are global, seconds end in ``_s``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from unhang.errors import describe_failure
from unhang.sentences import Text, say


class Cause(str, enum.Enum):
    """Why ranks stopped moving together. Ids are stable and never reused."""

    UNEVEN_DATA = "uneven-data"
    RANK_CONDITIONAL_COLLECTIVE = "rank-conditional-collective"
    COLLECTIVE_MISMATCH = "collective-mismatch"
    SINGLE_RANK_WORK = "single-rank-work"
    SLOW_DATA_LOADING = "slow-data-loading"
    RANK_CRASHED = "rank-crashed"
    GPU_OOM = "gpu-oom"
    HOST_MEMORY = "host-memory"
    GPU_HARDWARE = "gpu-hardware"
    NETWORK_FAULT = "network-fault"
    NETWORK_CONFIG = "network-config"
    P2P_BROKEN = "p2p-broken"
    DEVICE_MAPPING = "device-mapping"
    VERSION_MISMATCH = "version-mismatch"
    TIMEOUT_TOO_SHORT = "timeout-too-short"
    RENDEZVOUS = "rendezvous"
    DEADLOCK_ORDER = "deadlock-order"
    RANK_FROZEN = "rank-frozen"
    SLOW_RANK = "slow-rank"
    UNKNOWN = "unknown"


class Certainty(str, enum.Enum):
    """How sure a finding is. ``certain`` needs evidence that leaves no other explanation."""

    POSSIBLE = "possible"
    LIKELY = "likely"
    CERTAIN = "certain"

    @property
    def order(self) -> int:
        """0 for possible, 1 for likely, 2 for certain."""
        return ("possible", "likely", "certain").index(self.value)

    def capped(self, limit: Certainty) -> Certainty:
        """This certainty, but never above ``limit``."""
        return self if self.order <= limit.order else limit


class Grade(enum.Enum):
    """What a signal rests on; meaning, order and the certainty each allows: ``knowledge/reasoning/grades.toml``."""

    KERNEL = "kernel"
    RECORD = "record"
    SOURCE = "source"
    STATED = "stated"
    STACK = "stack"
    ORDER = "order"
    WORDS = "words"
    BASE_RATE = "base-rate"
    EXCLUSION = "exclusion"


class Ending(enum.Enum):
    """How the job, or the ranks of a finding, left, where its cause alone does not say it."""

    FROM_OUTSIDE = "ended from outside"
    """Somebody or a scheduler ended the job: what was wrong with it before is why, or at least what to look at."""
    NAMED = "ended for a named cause"
    """Its own error names another cause, or says only that something below it failed: that one is why."""
    CUT_OFF = "cut off"
    """Their nodes cannot be reached any more, and do not come back with the next start."""


class Severity(str, enum.Enum):
    """What a finding does to the job."""

    STOPS = "stops"
    SLOWS = "slows"
    NOTE = "note"


class Status(str, enum.Enum):
    """The state of the job as a whole."""

    HANG = "hang"
    SLOW = "slow"
    CRASH = "crash"
    MISCONFIGURED = "misconfigured"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


class Phase(str, enum.Enum):
    """What a rank was busy with: the only phase words anywhere. The last three, parts of compute, only stacks tell."""

    INIT = "init"
    DATA = "data"
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    EVAL = "eval"
    SAVE = "save"
    LOG = "log"
    SHUTDOWN = "shutdown"
    OTHER = "other"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was read: a path as the user would name it (``bundle.zip!logs/3.log`` in archives)."""

    path: str
    line: int | None = None
    byte: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A piece of something that was read. ``time`` is ISO 8601 text as far as known, else None."""

    source: Source
    text: str
    rank: int | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read, and why. It reaches the report; it is never dropped."""

    source: Source
    reason: str
    rank: int | None = None
    failed: bool = False
    """Unhang itself failed on it: what it would have told is not known, so nothing is certain and nothing is well."""
    lost: bool = False
    """Its bundle tells that it was there, or that there was more of it: nothing is certain without it."""

    @classmethod
    def after(cls, error: Exception, source: Source, rank: int | None = None) -> Unread:
        """What is left to say of a source on which a reader failed in a way that nobody foresaw."""
        return cls(source, f"could not be read: unhang failed on it ({describe_failure(error)})", rank, failed=True)


@dataclass(frozen=True, slots=True)
class Where:
    """A place in somebody's code. ``line`` counts from 1."""

    file: str
    line: int | None
    function: str


@dataclass(frozen=True, slots=True)
class Call:
    """The collective some ranks are in: ``operation`` is the bare name, ``elements`` the number of its input."""

    ranks: tuple[int, ...]
    operation: str
    position: int | None = None
    elements: int | None = None
    dtype: str | None = None


class RemedyKind(str, enum.Enum):
    """Who or what has to change."""

    CODE = "code"
    ENVIRONMENT = "environment"
    CONFIG = "config"
    INFRASTRUCTURE = "infrastructure"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to change, what it costs, how to see that it worked. ``set``/``unset`` name environment variables;
    ``row``: its name in ``knowledge/``, whose places the values of ``title`` fill."""

    title: Text
    kind: RemedyKind
    change: Text
    cost: Text
    verify: Text
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    row: str = ""


@dataclass(frozen=True, slots=True)
class Consequence:
    """What followed from a cause: sixty-three timeouts are one consequence with count 63."""

    cause: Cause
    ranks: tuple[int, ...]
    count: int
    summary: Text | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, how certain, which ranks, where, why, with its evidence."""

    cause: Cause
    certainty: Certainty
    severity: Severity
    summary: Text
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    group: str | None = None
    phase: Phase | None = None
    where: Where | None = None
    waiter_where: Where | None = None
    calls: tuple[Call, ...] = ()
    because: tuple[Text, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    detector: str = ""
    """File name of the detector that found it; for tests and ``--debug``, never printed as a cause."""
    grade: Grade | None = None
    """What it rests on; None for what ``unhang check`` finds."""
    ending: Ending | None = None
    check: str = ""
    """The question of ``unhang check`` that found it; empty for a stall."""
    subject: str = ""
    """What a finding of ``check`` is about: a variable, a device, a path."""
    world: str = ""
    """The world that its ranks are of, by its id; empty where the job has one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that nothing shows, and how often known incidents that looked like this had it: ``share``, from 0 to 1.

    ``settles``: the observation that confirms or refutes it, ``how`` to make it. ``basis``: what was counted.
    """

    cause: Cause
    share: float
    because: tuple[Text, ...]
    settles: Text
    how: str = ""
    basis: Literal["incidents"] = "incidents"


@dataclass(frozen=True, slots=True)
class KnownIncident:
    """A public incident that looks like this one, what it was, and what ended it: in English, as the library has it."""

    cause: Cause
    link: str
    happened: str
    fixed: str


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A cause that was looked for and contradicted by evidence."""

    cause: Cause
    because: Text


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A question that could not be answered, why, and the exact command that would answer it."""

    what: Text
    because: Text
    how: str = ""
    caps: Certainty | None = None
    """When set, no finding of this verdict may be more certain than this."""
    check: str = ""
    """The question of ``unhang check`` it belongs to; empty for a stall."""
    failed: bool = False
    """Unhang itself failed there: as in :class:`Unread`."""

    @classmethod
    def after(cls, error: Exception, what: Text, caps: Certainty | None = None) -> NotChecked:
        """What is left to say of a question on which unhang failed in a way that nobody foresaw."""
        because = say("unhang failed there ({failure}); --debug shows where", failure=describe_failure(error))
        return cls(what, because, caps=caps, failed=True)


@dataclass(frozen=True, slots=True)
class PassedCheck:
    """A question whose answer was good, and what was seen: of ``unhang check``, or the proof of a healthy verdict."""

    check: str
    what: Text
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """How sure it is that the job is well, and what shows it. ``certain`` and ``likely``: it is proven, from after the
    last collective. ``possible``: no problem was found, and nothing proves that there is none."""

    certainty: Certainty
    because: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class TornCheckpoint:
    """A checkpoint that a restart must not take, and why."""

    path: str
    because: Text


@dataclass(frozen=True, slots=True)
class Restart:
    """Whether to run again as it is, after a change, or without a node."""

    advice: Literal["as-is", "after-change", "without-node", "unknown"] = "unknown"
    exclude_nodes: tuple[str, ...] = ()
    last_complete_checkpoint: str | None = None
    because: Text | None = None
    torn_checkpoints: tuple[TornCheckpoint, ...] = ()
    """Newer than the last complete one, newest first."""


StopAdvice = Literal["yes", "no", "not-yet", "may-go-on", "continue", "look-again", "unsure"]


@dataclass(frozen=True, slots=True)
class Stop:
    """Whether it is safe to stop a job that lives, and how.

    ``advice``: ``yes``; ``no`` (nothing is stuck); ``not-yet`` (a checkpoint is being written); ``may-go-on`` (a rank
    works); ``continue`` (a rank was stopped and can be continued); ``look-again``; ``unsure``.
    ``commands``: what ends it, gentlest first; where ``advice`` is ``continue``, the first continues it.
    """

    advice: StopAdvice
    summary: Text
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SuggestedEnvironment:
    """The environment to run with instead: ``set`` and nothing else of ours, ``unset`` taken out, ``unless`` its reader
    knows better; ``text`` is the block to paste, written for ``form`` (a launcher, ``kubernetes``, ``export``)."""

    set: Mapping[str, str]
    unset: tuple[str, ...]
    form: str
    text: str
    unless: Text | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Processes of a job that number their ranks together: its trainers, engines that generate, what scores.

    ``role`` is one of ``knowledge/worlds/roles.toml``, and its ``id``; ``called``: what ``framework`` calls it,
    ``programs`` as their lines do. ``world_size`` is None where nothing tells it.
    """

    id: str
    role: str
    called: str
    framework: str
    programs: tuple[str, ...]
    world_size: int | None
    ranks_seen: tuple[int, ...]
    ranks_missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WorldEdge:
    """Ranks of one world (none: whoever calls for it) waited for those of another, which did not answer."""

    waiter: str
    awaited: str
    waiter_ranks: tuple[int, ...]
    awaited_ranks: tuple[int, ...]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings ranked (the first one is the verdict), what was ruled out, what could not be looked at."""

    status: Status
    world_size: int | None
    ranks_seen: tuple[int, ...]
    ranks_missing: tuple[int, ...]
    findings: tuple[Finding, ...]
    ruled_out: tuple[RuledOut, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    unread: tuple[Unread, ...] = ()
    restart: Restart = field(default_factory=Restart)
    stalled_since: str | None = None
    noticed_after_s: float | None = None
    killed_in_s: float | None = None
    gives_up: str = ""
    """The guard whose limit passes then; empty: a limit of the job's own."""
    checked: tuple[PassedCheck, ...] = ()
    suggested: SuggestedEnvironment | None = None
    stop: Stop | None = None
    """Of a job that was sampled while it lived; None of one that was read about."""
    differential: tuple[Candidate, ...] = ()
    """Background where no finding is *likely*: the causes of similar incidents, the largest share first."""
    incidents: tuple[KnownIncident, ...] = ()
    """Known incidents that look like this one, the most alike first."""
    health: Health | None = None
    """None where something is wrong or not explained, and for what ``unhang check`` says."""
    worlds: tuple[World, ...] = ()
    """Empty where the job has one. What is said of ranks beside the findings is of the first finding's."""
    edges: tuple[WorldEdge, ...] = ()
    """Who waited for whom across them."""

    @property
    def lead(self) -> Finding | None:
        """The first finding, unless it is a note."""
        return next((first for first in self.findings[:1] if first.severity is not Severity.NOTE), None)

    def led_by(self, finding: Finding) -> Verdict:
        """This verdict with ``finding`` in the place of its first."""
        return replace(self, findings=(finding, *self.findings[1:]))
