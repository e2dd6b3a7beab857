"""What the readers return. One reader a format; all of them speak in these items.

A reader never raises for bad input: what it could read is in the items, what it could not is in ``unread``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unhang.findings import Source, Unread
from unhang.knowledge.numbers import MAX_INTEGER, TimeForm

if TYPE_CHECKING:  # a log needs no columns
    import numpy as np
    import numpy.typing as npt

    IntColumn: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame. ``line`` is None for native frames."""

    function: str
    file: str
    line: int | None
    native: bool = False


def frames_of(lines: Iterable[tuple[str, int, str]]) -> tuple[Frame, ...]:
    """Lines (file, number, function) as frames."""
    return tuple(Frame(function, file, line or None) for file, line, function in lines)


# flight recorder

STATE_SCHEDULED, STATE_STARTED, STATE_COMPLETED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Signature:
    """What a collective was called with. Sizes are tuples of dimensions, one per tensor; dtypes as the dump spells
    them, lower-cased (``float``, ``bfloat16``)."""

    operation: str
    """Bare operation: ``all_reduce``, ``_all_gather_base``, ``send``, ``recv``, ``barrier``, ``coalesced``."""
    peer: int | None
    """Group rank of the partner of a ``send``/``recv``, else None."""
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]

    @property
    def input_elements(self) -> int:
        """Number of elements over all input tensors."""
        return sum(_product(sizes) for sizes in self.input_sizes)

    @property
    def output_elements(self) -> int:
        """Number of elements over all output tensors."""
        return sum(_product(sizes) for sizes in self.output_sizes)


def _product(sizes: tuple[int, ...]) -> int:
    return min(math.prod(sizes), MAX_INTEGER)  # no tensor is larger; a dump may say so


@dataclass(slots=True)
class RecorderEntries:
    """The recorded collectives of one rank in columns, oldest first; every column has length ``n``.

    Times are nanoseconds since the epoch, 0 = not known. Indexes point into the tables at the end.
    """

    record_id: IntColumn
    pg_id: IntColumn
    """Process-local id; key (as text) of the status. -1 = not recorded."""
    group: IntColumn
    """Index into ``group_names``."""
    position: IntColumn
    """``collective_seq_id`` (or ``seq_id`` before torch 2.4); for P2P its ``p2p_seq_id``."""
    is_p2p: npt.NDArray[np.bool_]
    signature: IntColumn
    """Index into ``signatures``."""
    state: npt.NDArray[np.int8]
    """0 scheduled, 1 started, 2 completed."""
    retired: npt.NDArray[np.bool_]
    created_ns: IntColumn
    started_ns: IntColumn
    completed_ns: IntColumn
    timeout_ms: IntColumn
    """-1 = not recorded."""
    stack: IntColumn
    """Index into ``stacks``; -1 = no frames recorded."""
    byte: IntColumn
    """Byte offset of the entry in its source; -1 = not known (JSON, or parsed whole)."""

    group_names: tuple[tuple[str, str], ...]
    """(name, description) of the groups."""
    signatures: tuple[Signature, ...]
    stacks: tuple[tuple[Frame, ...], ...]
    """Frames innermost first."""

    def __len__(self) -> int:
        return len(self.record_id)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A process group as the dump describes it. ``ranks`` is None when the dump does not know (Gloo)."""

    name: str
    description: str
    ranks: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Progress of one group in one process; -1 = none. ``pg_id`` is local to the process (a key, as text).
    For groups that only do P2P the numbers count P2P operations."""

    pg_id: str
    last_enqueued: int
    last_started: int
    last_completed: int


@dataclass(slots=True)
class RecorderDump:
    """One flight-recorder dump of one rank."""

    source: Source
    rank: int | None
    """Global rank from the file's name or the surrounding bundle; None when nothing tells."""
    backend: str
    """``nccl``, ``nccl2``, ``gloo``, ``xccl``, ``rccl``, … or empty when there is no entry to tell."""
    format_version: str
    """Version text of the dump; empty for the bare list of torch 2.2."""
    library_version: str
    """NCCL (or other) version text; empty when not recorded."""
    groups: Mapping[str, GroupConfig]
    status: Mapping[str, GroupStatus]
    entries: RecorderEntries
    whole: bool
    """False when only the end of the ring was read (enough for the stall) or the file is torn."""
    dropped: int | None = None
    """How many older entries were left unread on purpose; None when not known."""
    only_active: bool = False
    """The dump was made without its completed entries, as far as is known."""
    written_s: float | None = None
    """Modification time of the file (seconds since the epoch): orders several dumps of one rank."""
    unread: tuple[Unread, ...] = ()


# stacks


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread of one process. ``frames`` innermost first."""

    name: str
    thread_id: str
    frames: tuple[Frame, ...]
    active: bool | None = None
    """py-spy's active/idle; None when the format does not say."""
    holds_gil: bool | None = None
    line: int | None = None
    """Line of the dump where this thread starts."""
    took_fatal_signal: bool = False
    """faulthandler's current thread: the one in which the fatal signal came."""


@dataclass(slots=True)
class StackDump:
    """All threads of one process at one moment."""

    source: Source
    rank: int | None
    pid: int | None
    threads: tuple[ThreadStack, ...]
    format: str
    """``py-spy``, ``py-spy-json``, ``faulthandler``, ``gdb``."""
    command: str = ""
    time_s: float | None = None
    fatal: str = ""
    """faulthandler's fatal line (``Segmentation fault``), else empty."""
    unread: tuple[Unread, ...] = ()
    own_threads: tuple[ThreadStack, ...] = ()
    """Those that unhang started in the process: no part of the job, but they may wait for its interpreter lock."""


# logs

_NOWHERE = Source("")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A recognised line. ``kind`` is the id of a row of ``knowledge/messages`` (``wd.timeout``, ``store.connect``, …);
    ``values`` holds the row's named fields, integers already converted."""

    kind: str
    source: Source
    text: str
    """The line as the user would see it (prefixes and colours removed), at most 2,000 characters."""
    rank: int | None
    time_s: float | None
    """Seconds since the epoch (a log without a year is placed in the year of its other lines or of its file);
    None when the line has no time. Within one file order by ``source.line``."""
    values: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 0
    """Restart attempt (torchelastic ``attempt_N``) the line belongs to."""
    host: str | None = None
    time_form: TimeForm = TimeForm.DAY
    """How much of ``time_s`` the line itself tells: no more is ever shown."""
    program: str = ""  # what printed it, as its prefix calls it (``LLMRayActor``); of the items below too


@dataclass(frozen=True, slots=True)
class PythonTraceback:
    """A Python traceback found in a log. ``frames`` innermost first."""

    source: Source
    rank: int | None
    time_s: float | None
    exception: str
    """Qualified type: ``torch.OutOfMemoryError``, ``ValueError``."""
    message: str
    frames: tuple[Frame, ...]
    thread: str = ""
    """Name of the thread when the traceback says ``Exception in thread NAME``."""
    attempt: int = 0
    host: str | None = None
    chained: bool = False
    """True when another traceback of the same print follows from this one (``During handling of``)."""
    raised_line: int | None = None
    """Where the exception itself stands; None where the traceback has no such line."""
    pid: int | None = None
    """The process that raised it, where another one printed it (Ray)."""
    statement: str = ""
    """The last line of a guard's message, which is for us (``records/guard_statement.py``); not in ``message``."""
    program: str = ""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a rank's process ended, as told by a launcher, a scheduler or a bundle."""

    source: Source
    rank: int | None
    local_rank: int | None
    pid: int | None
    exit_code: int | None
    """As the shell or launcher says it; a signal is negative."""
    time_s: float | None
    host: str | None = None
    source_kind: str = ""
    """``torchelastic``, ``slurm``, ``bundle``, …"""
    terminated_by_launcher: bool = False
    """The launcher itself sent the signal because a sibling failed: a victim."""
    attempt: int = 0
    text: str = ""


@dataclass(slots=True)
class Progress:
    """A run of step or progress lines of one rank and label, folded into its first and last.

    ``recent`` holds (step, time_s or None) of at most the last 4,096 steps, oldest first.
    """

    source: Source
    rank: int | None
    label: str
    first_step: int
    last_step: int
    total: int | None
    first_time_s: float | None
    last_time_s: float | None
    last_line: int
    unit: str = "step"
    recent: tuple[tuple[int, float | None], ...] = ()
    last_text: str = ""
    attempt: int = 0
    elapsed_s: float | None = None
    """Since its start, as the bar itself printed it last."""
    loads: tuple[tuple[int, float, float], ...] = ()
    """(step, seconds it waited for its data, seconds in all) of at most the last 4,096 steps whose lines tell both."""
    repeated: bool = False
    """More lines told its last step than any before: it was told again without a step being done."""
    printed: tuple[tuple[int, float], ...] = ()
    """(step, seconds) of at most the last 4,096 steps, where the lines print them: since the start with ``elapsed_s``,
    else of a step, or since the start where they only grow."""
    program: str = ""


@dataclass(frozen=True, slots=True)
class LastLine:
    """The last ordinary line (no banner, no stack) a rank printed before the trouble, and the last of all."""

    source: Source
    rank: int | None
    text: str
    time_s: float | None
    followed: bool = False
    """Lines of an exception, of a stack or of somebody's keys stand behind it."""
    program: str = ""


EndSubject = Literal["job", "launch", "all", "process", "rank", "group"]
"""Whose end a line tells: the whole job's, on all nodes, as a scheduler tells it; that of all that one launcher
started; all ranks', as one of them tells it; one process's, by a number that is no rank; one rank's; that of one rank's
process group, which is destroyed."""


@dataclass(frozen=True, slots=True)
class LogEnding:
    """A line that tells how something ended; ``well`` is False where it tells of a bad end."""

    who: EndSubject
    well: bool = True
    ranks: tuple[int, ...] = ()
    """Those it is about; empty where it names none."""
    here: int | None = None
    """How many processes it is about, of ``size`` that the launcher reported."""
    size: int | None = None
    alone: bool = False
    """That launcher started the whole job."""
    name: str = ""
    """The process, by a number that is no rank."""
    words: bool = False
    """The program itself said it; it may still hang on its way out."""
    source: Source = _NOWHERE
    text: str = ""
    attempt: int = 0
    since_line: int = 0
    """Of the last command before it that ran a program of the job: of an earlier one it tells nothing."""


@dataclass(slots=True)
class LogReading:
    """One log, read once from front to back."""

    source: Source
    rank: int | None
    """Rank the whole file belongs to (``attempt_0/3/stderr.log``, ``rank3.log``); None for merged logs."""
    events: tuple[LogEvent, ...]
    tracebacks: tuple[PythonTraceback, ...]
    exits: tuple[ProcessExit, ...]
    progress: tuple[Progress, ...]
    last_lines: tuple[LastLine, ...]
    lines: int
    ranks: tuple[int, ...]
    """Ranks that spoke in it."""
    first_time_s: float | None = None
    last_time_s: float | None = None
    attempt: int = 0
    role: str = ""
    """``launcher`` when torchrun, srun or another launcher wrote it, ``kernel`` for dmesg/journal, else empty."""
    folded: Mapping[str, int] = field(default_factory=dict)
    """How many events of a kind were folded away beyond the kept ones; of floods of a kind at least so many."""
    unread: tuple[Unread, ...] = ()
    said: tuple[LastLine, ...] = ()
    """The latest ordinary lines of everybody, in order: those before the first trouble, then the last of all."""
    unrecognized_failures: tuple[LogEvent, ...] = ()
    """Lines of no known kind that tell of a failure in general words."""
    endings: tuple[LogEnding, ...] = ()
    """What its lines tell of how the job, a launcher or a rank ended."""
    sizes: tuple[int, ...] = ()
    """How many ranks the job has, as launchers and programs print it at the start."""
    started_line: int = 0
    """The last line that tells of a start."""
    has_year: bool = True
    """A line has a year; else all times are placed in the year of the file, which may be another log's next year."""
    programs: Mapping[int, str] = field(default_factory=dict)  # by pid, of processes whose lines say it

    def with_items(self, change: Callable[[Any], Any]) -> LogReading:
        """The same reading with every item changed."""
        items: dict[str, Any] = {name: tuple(map(change, getattr(self, name))) for name in _ITEMS_OF_A_LOG}
        return replace(self, **items)


_ITEMS_OF_A_LOG = (
    *("events", "tracebacks", "exits", "progress", "last_lines"),
    *("unrecognized_failures", "said", "endings"),
)


@dataclass(slots=True)
class SourceFile:
    """A user's source file kept as evidence. ``path`` is as stack frames spell it."""

    source: Source
    path: str
    text: str
