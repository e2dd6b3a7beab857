"""Processes that read dumps, so that many cores read, and so that a hostile dump costs such a process at most.

A question is a JSON line of names and sizes, with the bytes of those dumps behind it that are no files.

Python's own unpickler is fast, but a pickle can make it allocate without end, or hash for hours. It is used only where
the kernel says no to that: in such a process, held to the memory and the processor time that one dump can need.
"""

from __future__ import annotations

import gc
import io
import json
import math
import mmap
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from unhang.errors import DumpError
from unhang.evidence.file_names import rank_from_name
from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.header import ParsedDump
from unhang.evidence.flight_recorder.json_text import looks_like_json, read_json
from unhang.evidence.flight_recorder.nonstandard_pickle import check_root, read_nonstandard_pickle
from unhang.evidence.flight_recorder.reading import FallbackReader, read_fallback, read_recorder_dump
from unhang.evidence.flight_recorder.ring_window import dump_of_objects
from unhang.evidence.found_files import FileIdentity
from unhang.evidence.items import RecorderDump
from unhang.evidence.worker_process import WorkerProcess, packed
from unhang.findings import Source, Unread

if sys.platform != "win32":
    import resource

DumpItem = RecorderDump | Unread


class DumpInput(NamedTuple):
    """A dump to read: its path or name, its content where it is no file, and which file was found at that path."""

    name: str
    content: bytes | None = None
    identity: FileIdentity | None = None


_ANSWER_LIMIT_S: Final = 30.0
_LOADED: Final = 2  # how much longer than its processor time a dump may take
ANSWER_TYPES: Final = ("unhang.evidence.items", "unhang.findings")

WORKER: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unhang.evidence.flight_recorder.workers import serve_requests
serve_requests(sys.stdin.buffer, sys.stdout.buffer, whole=sys.argv[2] == "1")
"""


class Worker(WorkerProcess):
    """A process that reads dumps. Raises ``OSError`` when it cannot be started."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__(WORKER, str(int(whole)), answer_types=ANSWER_TYPES)

    def ask(self, batch: Sequence[DumpInput]) -> None:
        """Let it read ``batch``; one batch at a time."""
        heads = [[dump.name, None if dump.content is None else len(dump.content), dump.identity] for dump in batch]
        contents = (dump.content for dump in batch if dump.content is not None)
        limit_s = sum(map(_answer_limit_s, batch), _ANSWER_LIMIT_S)
        self.send(chain((json.dumps(heads).encode() + b"\n",), contents), limit_s)

    def answer(self) -> list[DumpItem] | None:
        """Its answer, waited for until the deadline; None when it ended, or has to be ended."""
        items: list[DumpItem] | None = self.received()
        return items

    def end_without_answer(self, one: DumpInput) -> list[DumpItem]:
        """End the process, which gave no answer for the dump ``one`` alone, and say why there is none."""
        how = self.ended_by()
        if how is None:
            reason = f"not read within {_ANSWER_LIMIT_S + _answer_limit_s(one):.0f} s"
        elif how == "signal SIGXCPU":
            seconds = cpu_seconds(_size(one))
            reason = f"refused: reading it takes more than {seconds} s of processor time, far more than a dump needs"
        else:
            reason = f"the process reading it ended ({how})"
        return [Unread(Source(one.name), reason, rank_from_name(one.name))]


def _size(dump: DumpInput) -> int:
    if dump.content is not None:
        return len(dump.content)
    try:
        return Path(dump.name).stat().st_size
    except OSError:
        return 0


def _answer_limit_s(dump: DumpInput) -> float:
    return _LOADED * float(cpu_seconds(_size(dump)))


def serve_requests(questions: BinaryIO, answers: BinaryIO, *, whole: bool) -> None:
    """A worker's life: for each question one pickled list of items, its length in 8 bytes before it."""
    disable_core_files()
    shared = SharedTables()
    others: FallbackReader = read_sandboxed if memory_limit_works() else read_fallback
    for line in questions:
        items = []
        for name, size, identity in json.loads(line):
            content = name if size is None else questions.read(size)
            found = None if identity is None else tuple(identity)
            try:
                items.append(
                    read_recorder_dump(content, source=name, whole=whole, shared=shared, others=others, identity=found)
                )
            except Exception as error:  # noqa: BLE001 - one dump that the reader fails on must not cost the others
                items.append(Unread.after(error, Source(name), rank_from_name(name)))
        answers.write(packed(items))
        answers.flush()


def read_sandboxed(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    """The dump ``data`` in any layout, within bounds that hold; in a process that may be lost.

    Raises :class:`DumpError` when it is none, is refused, or needs more memory than any dump does.
    """
    with limited_process(len(data)):
        try:
            return _read(data, shared, whole=whole)
        except (MemoryError, RecursionError):
            raise DumpError(
                f"refused: it unpacks to far more than a dump contains (at most {MEMORY_BYTES >> 20} MiB)"
            ) from None


def _read(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    if looks_like_json(data):
        return read_json(data, shared, whole=whole)
    root = None if whole else unpickled(data)  # our own machine tells where each entry stands
    if root is None:
        return read_nonstandard_pickle(data, shared, whole=whole)  # torn, or refused with a reason
    check_root(root)
    return dump_of_objects(root, shared, whole=whole)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise pickle.UnpicklingError(f"asks for {module_name}.{global_name}")

    def persistent_load(self, pid: Any, /) -> Any:
        raise pickle.UnpicklingError(f"asks for an object outside the pickle, {type(pid).__name__}")


def unpickled(data: bytes) -> Any:
    """The plain value of the pickle ``data``; None when it is torn, asks for more, or needs too much memory."""
    try:
        # buffered: the unpickler then looks ahead instead of asking for each opcode
        return _PlainUnpickler(io.BufferedReader(io.BytesIO(data)), fix_imports=False).load()
    except Exception:  # noqa: BLE001 - a broken pickle may raise anything; our own machine then says what is wrong
        return None


MEMORY_BYTES: Final = 512 << 20
"""The most one dump may need. Its objects need up to 25 times its own size; the longest known dump has 3 MB."""
_MEMORY_FLOOR: Final = 128 << 20
_MEMORY_RATIO: Final = 48
_CPU_FLOOR_S: Final = 5
_BYTES_PER_CPU_SECOND: Final = 2 << 20
"""Our own machine, which reads torn pickles, manages twice as much."""
_PROBE: Final = 64 << 20


def memory_limit_works() -> bool:
    """Whether this system refuses a process more memory than it allowed it: only Linux does, and not every sandbox."""
    if sys.platform != "linux":
        return False
    with _lowered(resource.RLIMIT_AS, _address_space() + _PROBE):
        try:
            mmap.mmap(-1, 2 * _PROBE).close()
        except OSError:
            return True
    return False


def cpu_seconds(size: int) -> int:
    """The processor time that a dump of ``size`` bytes may take."""
    return _CPU_FLOOR_S + size // _BYTES_PER_CPU_SECOND


def disable_core_files() -> None:
    """Leave no image of this process behind should a dump end it."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@contextmanager
def limited_process(size: int) -> Iterator[None]:
    """Within it this process may take as much memory and processor time as a dump of ``size`` bytes can need.

    Too much memory is a ``MemoryError``; too much processor time ends the process (SIGXCPU).
    """
    memory = min(MEMORY_BYTES, _MEMORY_FLOOR + _MEMORY_RATIO * size)
    seconds = math.ceil(time.process_time()) + cpu_seconds(size)
    gc.disable()  # plain values form no circles worth finding, and looking for them takes as long as reading
    try:
        with _lowered(resource.RLIMIT_AS, _address_space() + memory), _lowered(resource.RLIMIT_CPU, seconds):
            yield
    finally:
        gc.enable()


@contextmanager
def _lowered(kind: int, wanted: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * mmap.PAGESIZE
