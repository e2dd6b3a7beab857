"""Processes that read dumps, so that many cores read, and so that a hostile dump costs such a process at most.

They are fresh interpreters, not forks: a process with threads must not fork, and the caller may have some. A question
is a JSON line of names and sizes, with the bytes of those dumps behind it that are no files; an answer is a pickle of
our own items, of which nothing but these is taken.

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
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

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
_ANSWER_TYPES: Final = ("unhang.evidence.items", "unhang.findings")
_ARRAYS: Final = frozenset(
    (package + module, name)
    for package, module, name in (
        ("numpy", "", "dtype"),
        ("numpy", "", "ndarray"),
        *(("numpy", core + ".multiarray", "_reconstruct") for core in ("._core", ".core")),
        *(("numpy", core + ".numeric", "_frombuffer") for core in ("._core", ".core")),
    )
)

WORKER: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unhang.evidence.flight_recorder.workers import serve_requests
serve_requests(sys.stdin.buffer, sys.stdout.buffer, whole=sys.argv[2] == "1")
"""


class Worker:
    """One such process. Raises ``OSError`` when it cannot be started."""

    def __init__(self, *, whole: bool) -> None:
        if not sys.executable:
            raise FileNotFoundError("this Python does not know its own executable")
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps([path for path in sys.path if path]), str(int(whole))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Python's own unpickler complains there of lengths that cannot be
        )
        self._questions = cast("BinaryIO", self._process.stdin)
        self.answers = cast("BinaryIO", self._process.stdout)
        self.deadline = 0.0
        """When (on the monotonic clock) its answer is no longer waited for."""

    def ask(self, dumps: Sequence[DumpInput]) -> None:
        """Let it read ``dumps``; one batch at a time."""
        self.deadline = time.monotonic() + sum(map(_answer_limit_s, dumps), _ANSWER_LIMIT_S)
        heads = [[dump.name, None if dump.content is None else len(dump.content), dump.identity] for dump in dumps]
        with suppress(BrokenPipeError):  # it ended; its closed answers are noticed next
            self._questions.write(json.dumps(heads).encode() + b"\n")
            for dump in dumps:
                if dump.content is not None:
                    self._questions.write(dump.content)
            self._questions.flush()

    def answer(self) -> list[DumpItem] | None:
        """Its answer, waited for until the deadline; None when it ended, or has to be ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            if not selector.select(max(0.0, self.deadline - time.monotonic())):
                return None
        head = self.answers.read(8)
        size = int.from_bytes(head, "little")
        body = self.answers.read(size) if len(head) == 8 else b""
        if not body or len(body) != size:
            return None
        try:
            items: list[DumpItem] = _ItemUnpickler(io.BytesIO(body)).load()
        except Exception:  # noqa: BLE001 - what a harmed worker answers may raise anything
            self._process.kill()
            return None
        return items

    def end_without_answer(self, dump: DumpInput) -> Unread:
        """End the process, which gave no answer for ``dump`` alone, and say why there is none."""
        late = time.monotonic() >= self.deadline
        return Unread(Source(dump.name), self._end_of(dump, late=late), rank_from_name(dump.name))

    def _end_of(self, dump: DumpInput, *, late: bool) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if late else 10)
        code = self._process.returncode
        if code is None:
            return f"not read within {_ANSWER_LIMIT_S + _answer_limit_s(dump):.0f} s"
        if _exit_text(code) == "signal SIGXCPU":
            seconds = cpu_seconds(_size(dump))
            return f"refused: reading it takes more than {seconds} s of processor time, far more than a dump needs"
        return f"the process reading it ended ({_exit_text(code)})"

    def end(self) -> None:
        """End the process, at once if need be."""
        for pipe in (self._questions, self.answers):
            with suppress(BrokenPipeError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
            return
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # one that waits for a dead file system cannot be killed
            self._process.wait(5)


def _size(dump: DumpInput) -> int:
    if dump.content is not None:
        return len(dump.content)
    try:
        return Path(dump.name).stat().st_size
    except OSError:
        return 0


def _answer_limit_s(dump: DumpInput) -> float:
    return _LOADED * float(cpu_seconds(_size(dump)))


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


class _ItemUnpickler(pickle.Unpickler):
    """A worker may have been harmed by what it read: of its answer only plain values, items and arrays are taken."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) in _ARRAYS:
            return super().find_class(module_name, global_name)
        if module_name in _ANSWER_TYPES and "." not in global_name:
            found = super().find_class(module_name, global_name)
            if isinstance(found, type) and found.__module__ == module_name:
                return found
        raise pickle.UnpicklingError(f"a worker answered with {module_name}.{global_name}")


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
        body = pickle.dumps(items, protocol=pickle.HIGHEST_PROTOCOL)
        answers.write(len(body).to_bytes(8, "little") + body)
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
