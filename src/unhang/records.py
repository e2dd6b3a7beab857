"""The memory-mapped record of a live rank: one layout, written inside the rank, read beside it.

A records folder (``UNHANG_RUN``, local file system, 0700) holds::

    births/<attempt>.<pid>.json   every Python process that was started with RANK set; not every one is a rank
    births/<attempt>.<pid>.log    what went wrong with us in that process, a line each; usually missing
    <attempt>.<pid>.rec           a rank's record, from the moment it enters init_process_group
    control                       what the watcher asks for

A record is 16 KiB: a header that never changes after creation, then two slots of 8 KiB, written in turn. Each slot
carries its sequence number, its length and its checksum, so a reader takes the newest slot that is whole: being
killed in the middle of a write, or read in the middle of one, costs at most one beat. Little endian throughout.

Times end in ``_ns``: ``*_wall_ns`` is the wall clock, everything else the monotonic clock of this machine (the same
in every process of it). Minus one means "none yet". Ranks are global. Standard library only.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

LAYOUT = 1
SIZE = 16384
MAGIC = b"UNHANGR1"
CONTROL_MAGIC = b"UNHANGC1"
CONTROL_SIZE = 4096
MAX_GROUPS = 32
MAX_STEPS = 32
DEFAULT_BEAT_MS = 250
PHASES = ("init", "data", "compute", "communication", "eval", "save", "log", "shutdown", "other")
"""The order of ``findings.Phase``: a phase is one byte in a record."""
STEP_SOURCES = ("none", "guards", "rhythm")
"""Who counts steps: nobody yet, the user's call of guards, or rounds of ``Control.collectives_per_step``."""
Memory = mmap.mmap | memoryview
DUMP_RESULTS = ("none", "written", "recorder off", "no recorder", "could not write", "failed")

HEADER_AT = 0
SLOT_AT = (256, 256 + 8064)
SLOT_SIZE = 8064
_HEADER = struct.Struct("<8sIIqqqqqq32s32s")
_SLOT_HEAD = struct.Struct("<QII")
_BEAT = struct.Struct("<I32sqqQqqq")
_THREAD = struct.Struct("<QBBQqqI256s96sI256s96sH")
_STACK_BYTES = 2400
_STEPS = struct.Struct(f"<BQqqdI{MAX_STEPS}q")
_DUMP = struct.Struct("<QQqBq")
_GROUP = struct.Struct("<48s24siqqqqB")
_COUNT = struct.Struct("<I")
_CONTROL = struct.Struct("<8sIIQQIIq")
_FLAGS = ("in_init", "closed", "exiting", "recorder_on", "gave_up", "ended")
_READ_RETRIES = 5


@dataclass(slots=True)
class Place:
    """A line of Python. ``line`` is 1-based, 0 when there is none."""

    file: str = ""
    line: int = 0
    function: str = ""


@dataclass(slots=True)
class GroupCount:
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
class Identity:
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
    ``file:line:function`` per text line, innermost first (short of 2,400 bytes). ``since_ns``: since when the stack is
    this very one at every beat (``stack_hash``). ``beat_cost_ns``: CPU time of our thread since it started;
    ``longest_beat_ns``: its longest beat by CPU time, ``longest_pause_ns``: the longest one without giving the
    interpreter back (upper bound).
    """

    identity: Identity = field(default_factory=Identity)
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
    looked_ns: int = -1
    user: Place = field(default_factory=Place)
    top: Place = field(default_factory=Place)
    stack: str = ""
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
    groups: list[GroupCount] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, for JSON."""
        return asdict(self)

    def age_s(self, now_ns: int | None = None) -> float:
        """Seconds since the last beat, on this machine."""
        return ((time.monotonic_ns() if now_ns is None else now_ns) - self.beat_ns) / 1e9


def _short(text: str, limit: int) -> bytes:
    """``text`` in at most ``limit`` bytes, keeping its end: of a path the end says most."""
    data = text.encode("utf-8", "backslashreplace")
    return data if len(data) <= limit else data[-limit:]


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace")


def _word(words: tuple[str, ...], at: int) -> str:
    return words[at] if at < len(words) else words[0]


def _pack(view: RecordView) -> bytes:
    flags = sum(getattr(view, name) << bit for bit, name in enumerate(_FLAGS))
    stack = view.stack.encode("utf-8", "backslashreplace")[:_STACK_BYTES]
    steps = view.step_durations_ns[-MAX_STEPS:]
    groups = view.groups[:MAX_GROUPS]
    parts = [
        _BEAT.pack(
            flags,
            _short(view.backend, 32),
            view.beat_ns,
            view.beat_wall_ns,
            view.beats,
            view.beat_cost_ns,
            view.longest_beat_ns,
            view.longest_pause_ns,
        ),
        _THREAD.pack(
            view.thread_id,
            PHASES.index(view.phase),
            min(view.threads, 255),
            view.stack_hash,
            view.since_ns,
            view.looked_ns,
            view.user.line,
            _short(view.user.file, 256),
            _short(view.user.function, 96),
            view.top.line,
            _short(view.top.file, 256),
            _short(view.top.function, 96),
            len(stack),
        ),
        stack,
        _STEPS.pack(
            STEP_SOURCES.index(view.step_source),
            view.steps,
            view.collectives_per_step,
            view.last_step_ns,
            view.step_mean_ns,
            len(steps),
            *steps,
            *(0,) * (MAX_STEPS - len(steps)),
        ),
        _DUMP.pack(
            view.dump_served,
            view.stacks_served,
            view.dumped_ns,
            DUMP_RESULTS.index(view.dump_result),
            view.dump_cost_ns,
        ),
        _COUNT.pack(len(groups)),
    ]
    parts += [
        _GROUP.pack(
            _short(group.name, 48),
            _short(group.backend, 24),
            group.size,
            group.enqueued,
            group.started,
            group.completed,
            group.changed_ns,
            group.sure,
        )
        for group in groups
    ]
    return b"".join(parts)


class _Cursor:
    """Walks over the bytes of a slot."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, shape: struct.Struct) -> tuple[Any, ...]:
        values = shape.unpack_from(self.data, self.at)
        self.at += shape.size
        return values

    def take_bytes(self, length: int) -> bytes:
        data = self.data[self.at : self.at + length]
        self.at += length
        return data


def _unpack(data: bytes, identity: Identity) -> RecordView:
    """Raises struct.error or IndexError on bytes that are no payload."""
    view, cursor = RecordView(identity=identity), _Cursor(data)
    flags, backend, *beat = cursor.take(_BEAT)
    for bit, name in enumerate(_FLAGS):
        setattr(view, name, bool(flags >> bit & 1))
    view.backend = _text(backend)
    view.beat_ns, view.beat_wall_ns, view.beats, view.beat_cost_ns, view.longest_beat_ns, view.longest_pause_ns = beat
    view.thread_id, phase, view.threads, view.stack_hash, view.since_ns, view.looked_ns, *places = cursor.take(_THREAD)
    view.phase = _word(PHASES, phase) if phase < len(PHASES) else "other"
    view.user = Place(_text(places[1]), places[0], _text(places[2]))
    view.top = Place(_text(places[4]), places[3], _text(places[5]))
    view.stack = _text(cursor.take_bytes(min(places[6], _STACK_BYTES)))
    source, view.steps, view.collectives_per_step, view.last_step_ns, view.step_mean_ns, count, *durations = (
        cursor.take(_STEPS)
    )
    view.step_source = _word(STEP_SOURCES, source)
    view.step_durations_ns = durations[: min(count, MAX_STEPS)]
    view.dump_served, view.stacks_served, view.dumped_ns, result, view.dump_cost_ns = cursor.take(_DUMP)
    view.dump_result = _word(DUMP_RESULTS, result)
    (groups,) = cursor.take(_COUNT)
    for _ in range(min(groups, MAX_GROUPS)):
        name, kind, size, enqueued, started, completed, changed_ns, sure = cursor.take(_GROUP)
        view.groups.append(
            GroupCount(_text(name), size, enqueued, started, completed, changed_ns, bool(sure), _text(kind))
        )
    return view


def _reserve(path: Path, size: int) -> int:
    """A new private file whose bytes exist: a full disk under a sparse map would be SIGBUS. Returns its descriptor.

    Raises:
        OSError: the folder is missing, read-only or full. No file is left then.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(number, 0, size)
    except BaseException:
        os.close(number)
        with suppress(OSError):
            path.unlink()
        raise
    return number


def _map(number: int, size: int, *, writable: bool = True) -> Memory:
    """The bytes of an open file. Keeps no descriptor: in a rank that would shift the program's own numbers, and be
    closed under us by programs that close what they do not know.

    Raises:
        OSError: it cannot be mapped.
    """
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    if sys.version_info >= (3, 13):
        return mmap.mmap(number, size, access=access, trackfd=False)
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
    protection = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    address = libc.mmap(None, size, protection, mmap.MAP_SHARED, number, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "cannot map the record")
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class Record:
    """The writer's side. One process, one thread; ``now`` is what the next :meth:`publish` says."""

    def __init__(self, memory: Memory, now: RecordView) -> None:
        self._memory, self._sequence = memory, 0
        self.now = now

    @classmethod
    def create(cls, path: Path, identity: Identity) -> Record:
        """A new record at ``path``, which must not exist, with a first (empty) beat already in it.

        Raises:
            OSError: it exists, the folder is missing or read-only, or there is no room for it.
        """
        number = _reserve(path, SIZE)
        try:
            memory = _map(number, SIZE)
        finally:
            os.close(number)
        record = cls(memory, RecordView(identity=identity))
        record.write_identity()
        record.publish()
        return record

    def write_identity(self) -> None:
        """Write the header again, for a rank that learns its number only when its group stands."""
        identity = self.now.identity
        self._memory[HEADER_AT : HEADER_AT + _HEADER.size] = _HEADER.pack(
            MAGIC,
            LAYOUT,
            SIZE,
            identity.pid,
            identity.rank,
            identity.local_rank,
            identity.world_size,
            identity.attempt,
            identity.armed_ns,
            _short(identity.python, 32),
            _short(identity.torch, 32),
        )

    def publish(self) -> None:
        """Write ``now`` into the slot the last beat is not in. Never blocks; memory only."""
        data = _pack(self.now)
        self._sequence += 1
        at = SLOT_AT[self._sequence % 2]
        start = at + _SLOT_HEAD.size
        _SLOT_HEAD.pack_into(self._memory, at, 0, 0, 0)  # nobody trusts this slot while it changes
        self._memory[start : start + len(data)] = data
        _SLOT_HEAD.pack_into(self._memory, at, self._sequence, len(data), zlib.crc32(data))

    @staticmethod
    def open_read(path: Path) -> RecordView | None:
        """What the record at ``path`` says now, or None: missing, not ours, another layout, or never whole."""
        return read_record(path)


def read_record(path: Path) -> RecordView | None:
    """What the record at ``path`` says now; None when it is missing, foreign, or torn at every one of five looks."""
    for _ in range(_READ_RETRIES):
        try:
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            data = os.read(number, SIZE)
        except OSError:
            return None
        finally:
            os.close(number)
        identity = _identity(data)
        if identity is None:
            return None
        view = _newest(data, identity)
        if view is not None:
            return view
    return None


def _identity(data: bytes) -> Identity | None:
    if len(data) != SIZE:
        return None
    magic, layout, size, *values = _HEADER.unpack_from(data, HEADER_AT)
    if magic != MAGIC or layout != LAYOUT or size != SIZE:
        return None
    pid, rank, local_rank, world_size, attempt, armed_ns, python, torch = values
    return Identity(pid, rank, local_rank, world_size, attempt, armed_ns, _text(python), _text(torch))


def _newest(data: bytes, identity: Identity) -> RecordView | None:
    for payload in (found for _, found in sorted(_whole_slots(data), reverse=True)):
        with suppress(struct.error, IndexError):
            return _unpack(payload, identity)
    return None


def _whole_slots(data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in SLOT_AT:
        sequence, length, checksum = _SLOT_HEAD.unpack_from(data, at)
        start = at + _SLOT_HEAD.size
        payload = data[start : start + length]
        if sequence and length <= SLOT_SIZE - _SLOT_HEAD.size and zlib.crc32(payload) == checksum:
            yield sequence, payload


def record_path(folder: Path, attempt: int, pid: int) -> Path:
    """Where the record of one process lies."""
    return folder / f"{attempt}.{pid}.rec"


def read_records(folder: Path) -> dict[Path, RecordView]:
    """Every readable record of a records folder, by path; files that are no record (yet) are left out."""
    try:
        paths = sorted(folder.glob("*.rec"))
    except OSError:
        return {}
    return {path: view for path in paths if (view := read_record(path)) is not None}


@dataclass(slots=True)
class Control:
    """What the watcher asks of every rank; it writes, ranks read at each beat.

    ``dump_request`` and ``stacks_request`` are counters: a rank writes a dump (without stacks; with stacks) when one
    rose since it last served it. ``stacks_rank``: the only rank to answer ``stacks_request``, -1 for every rank.
    ``watcher_pid``: who may look at the ranks' memory; 0 while unknown. ``beat_ms``: wanted time between two beats
    (10 to 10,000). ``collectives_per_step``: collectives of the busiest group in one step of the loop, found in a
    dump; ranks count whole steps from then on. 0 while unknown.
    """

    dump_request: int = 0
    stacks_request: int = 0
    stacks_rank: int = -1
    beat_ms: int = DEFAULT_BEAT_MS
    watcher_pid: int = 0
    collectives_per_step: int = 0

    @staticmethod
    def create(folder: Path) -> ControlWriter:
        """A new control file in ``folder``. Raises OSError when it cannot be made."""
        number = _reserve(folder / "control", CONTROL_SIZE)
        try:
            memory = mmap.mmap(number, CONTROL_SIZE)
        finally:
            os.close(number)
        writer = ControlWriter(memory)
        writer.publish()
        return writer

    @staticmethod
    def open_read(folder: Path) -> ControlReader | None:
        """The reader's side of the control file in ``folder``; None when there is none or it is not ours."""
        try:
            number = os.open(folder / "control", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if os.fstat(number).st_size != CONTROL_SIZE:
                return None
            return ControlReader(_map(number, CONTROL_SIZE, writable=False))
        except (OSError, ValueError):
            return None
        finally:
            os.close(number)


class ControlWriter:
    """The watcher's side: change ``now``, then :meth:`publish`."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.now = Control()

    def publish(self) -> None:
        """Write ``now``. Never blocks."""
        now = self.now
        data = _CONTROL.pack(
            CONTROL_MAGIC,
            LAYOUT,
            now.beat_ms,
            now.dump_request,
            now.stacks_request,
            now.watcher_pid,
            now.collectives_per_step,
            now.stacks_rank,
        )
        self._memory[4 : 4 + len(data)] = data
        _COUNT.pack_into(self._memory, 0, zlib.crc32(data))

    def close(self) -> None:
        """Let the memory go; the file stays."""
        self._memory.close()

    def ask_dump(self) -> int:
        """Ask every rank for a dump without stacks; returns the number that ``dump_served`` will reach."""
        self.now.dump_request += 1
        self.publish()
        return self.now.dump_request

    def ask_stacks(self, rank: int = -1) -> int:
        """Ask ``rank`` (-1: every rank) for a dump with stacks; returns the number ``stacks_served`` will reach."""
        self.now.stacks_request += 1
        self.now.stacks_rank = rank
        self.publish()
        return self.now.stacks_request


class ControlReader:
    """The rank's side. :meth:`read` keeps the last whole answer: a torn one is read again at the next beat."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._last, self._bytes = Control(), b""

    def read(self) -> Control:
        """What is asked for now."""
        data = bytes(self._memory[: 4 + _CONTROL.size])
        if data == self._bytes:
            return self._last
        self._bytes = data
        (checksum,) = _COUNT.unpack_from(data)
        data = data[4:]
        if zlib.crc32(data) != checksum:
            self._bytes = b""
            return self._last
        magic, layout, beat_ms, dump, stacks, watcher_pid, per_step, stacks_rank = _CONTROL.unpack(data)
        if magic == CONTROL_MAGIC and layout == LAYOUT:
            self._last = Control(dump, stacks, stacks_rank, beat_ms, watcher_pid, per_step)
        return self._last


@dataclass(slots=True)
class Birth:
    """A Python process that was started with RANK set. ``started_s`` is wall clock; -1 where a number is not set.

    ``entered_by`` says how we came in:
    ``path`` (start-up hook), ``torch`` (entry point), or ``init`` (it was told its rank only when it armed).
    """

    pid: int
    ppid: int
    rank: int
    local_rank: int
    world_size: int
    attempt: int
    host: str
    argv0: str
    started_s: float
    entered_by: str = "path"


_BIRTH_LIMIT = 65536


def read_birth(path: Path) -> Birth | None:
    """One birth record; None when it is missing, torn or not one."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_BIRTH_LIMIT))
        return Birth(**{name.name: found[name.name] for name in fields(Birth) if name.name in found})
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def read_births(folder: Path) -> list[Birth]:
    """Every readable birth record of a records folder, oldest first."""
    try:
        paths = sorted((folder / "births").glob("*.json"))
    except OSError:
        return []
    return sorted((birth for path in paths if (birth := read_birth(path))), key=lambda birth: birth.started_s)


def read_troubles(folder: Path) -> dict[int, list[str]]:
    """What went wrong with us in the processes of a records folder: lines by pid."""
    troubles: dict[int, list[str]] = {}
    with suppress(OSError):
        for path in sorted((folder / "births").glob("*.log")):
            pid = path.stem.rpartition(".")[2]
            with suppress(OSError), path.open("rb") as file:
                lines = file.read(_BIRTH_LIMIT).decode("utf-8", "replace").splitlines()
                troubles.setdefault(int(pid) if pid.isdecimal() else -1, []).extend(lines)
    return troubles
