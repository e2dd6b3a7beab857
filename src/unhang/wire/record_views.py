"""What a record says, as plain values: who a rank is, what it does, how far its groups came."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

PHASES = ("init", "data", "compute", "communication", "eval", "save", "log", "shutdown", "other")
"""The order of ``findings.Phase``: a phase is one byte in a record."""
HIDDEN_COLLECTIVES = ("_engine_run_backward", "backward", "_pre_forward", "_distributed_broadcast_coalesced")
"""Functions below which native code issues collectives that no Python frame shows: hooks reduce gradients in backward,
DDP rebuilds its buckets and broadcasts buffers as a forward begins (torch/nn/parallel/distributed.py)."""
STEP_SOURCES = ("none", "guards", "rhythm", "optimizer")
"""Who counts steps: nobody yet, the user's call of guards, rounds of ``Control.collectives_per_step``, or torch's
optimizers."""
DUMP_RESULTS = ("none", "written", "recorder off", "no recorder", "could not write", "failed")


@dataclass(slots=True)
class CodeLine:
    """A line of Python. ``line`` is 1-based, 0 when there is none."""

    file: str = ""
    line: int = 0
    function: str = ""


@dataclass(slots=True)
class GroupProgress:
    """How far one group came in this rank, as the recorder counts (positions start at 1, P2P counted by some backends).

    ``completed`` never goes back here; on Gloo it may pass a pending operation and count a failed one.
    ``changed_ns``: when one of the three last moved. ``sure``: the name was read from the recorder's own entries;
    otherwise from the order in which groups were made (a group of unknown name is called ``?<id>``).
    ``backend``: ``nccl``, ``gloo``, … as far as known.
    """

    name: str
    size: int = 0
    enqueued: int = -1
    started: int = -1
    completed: int = -1
    changed_ns: int = -1
    sure: bool = False
    backend: str = ""


@dataclass(slots=True)
class MarkedPhase:
    """A phase the program marked and is in. ``at_most_ns``: how long it is meant to take; -1 without a bound."""

    label: str
    phase: str = "other"
    since_ns: int = -1
    at_most_ns: int = -1


@dataclass(slots=True)
class GuardWait:
    """The rank waits in a guard, on the store and in no collective. ``ranks``: for whom; empty: it does not know.
    ``limit_ns``: so long after its beginning the guard gives up; -1 where it has no such limit."""

    what: str
    ranks: tuple[int, ...] = ()
    since_ns: int = -1
    limit_ns: int = -1


@dataclass(slots=True)
class TimeSpent:
    """The time of all ended marks of one label, without the marks inside them."""

    label: str
    ns: int = 0
    times: int = 0


@dataclass(slots=True)
class RankIdentity:
    """Who a rank is; fixed at creation. ``armed_ns``: when it entered init_process_group."""

    pid: int = -1
    rank: int = -1
    local_rank: int = -1
    world_size: int = -1
    attempt: int = 0
    armed_ns: int = -1
    python: str = ""
    torch: str = ""


@dataclass(slots=True)
class RecordView:
    """What a record says at one moment. The writer fills one and publishes it at every beat.

    ``thread_id`` is the native id of the thread believed to issue collectives; ``user`` the innermost line that is
    neither torch's, Python's nor an installed package's; ``top`` the innermost Python line; ``stack`` one
    ``file:line:function`` per text line, innermost first (at most ``layout.STACK_BYTES``). ``since_ns``: since when the
    stack is this very one at every beat (``stack_hash``). ``beat_cost_ns``: CPU time of our thread since it started;
    ``longest_beat_ns``: its longest beat by CPU time, ``longest_pause_ns``: the longest one without giving the
    interpreter back (upper bound).
    """

    identity: RankIdentity = field(default_factory=RankIdentity)
    in_init: bool = False
    closed: bool = False
    """The job tore its default group down; it may be initialised again."""
    exiting: bool = False
    """The interpreter began to shut down in order."""
    recorder_on: bool = False
    gave_up: bool = False
    """Our thread stopped although the rank goes on: a heartbeat that stands still says nothing then."""
    ended: bool = False
    """Our thread stopped because the interpreter is about to end in order."""
    backend: str = ""
    beat_ns: int = -1
    beat_wall_ns: int = -1
    beats: int = 0
    beat_cost_ns: int = 0
    longest_beat_ns: int = 0
    longest_pause_ns: int = 0
    thread_id: int = 0
    threads: int = 0
    phase: str = "other"
    stack_hash: int = 0
    since_ns: int = -1
    sampled_ns: int = -1
    user: CodeLine = field(default_factory=CodeLine)
    top: CodeLine = field(default_factory=CodeLine)
    stack: str = ""
    partner: int = -1
    """With whom it is in a blocking send or receive; -1 where it is in none, or nothing tells."""
    step_source: str = "none"
    steps: int = 0
    collectives_per_step: int = 0
    last_step_ns: int = -1
    step_mean_ns: float = 0.0
    """Moving average of a step; 0 while unknown."""
    step_durations_ns: list[int] = field(default_factory=list)
    """The last 32 steps, oldest first; with ``rhythm`` means over the steps of one beat."""
    dump_served: int = 0
    stacks_served: int = 0
    dumped_ns: int = -1
    dump_result: str = "none"
    dump_cost_ns: int = 0
    groups: list[GroupProgress] = field(default_factory=list)
    mark: MarkedPhase | None = None
    """Of the marks that are open, the innermost with a bound; without one the innermost."""
    wait: GuardWait | None = None
    spent: list[TimeSpent] = field(default_factory=list)
    """The eight labels that took longest, longest first."""

    def age_s(self, now_ns: int | None = None) -> float:
        """Seconds since the last beat, on this machine."""
        return ((time.monotonic_ns() if now_ns is None else now_ns) - self.beat_ns) / 1e9
