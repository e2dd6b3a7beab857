"""Tracebacks that only say that a partner is gone, that say one thing twice, or show where a rank gave up waiting."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache

from unhang.evidence.items import Frame, PythonTraceback, StackDump, ThreadStack
from unhang.evidence.logs.content.tracebacks import LAUNCHER
from unhang.facts.endings.guard_errors import parse_guard_error
from unhang.facts.model import RankFacts
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.knowledge.failure_language import ELSEWHERE, find_failure_statement, without_guesses
from unhang.knowledge.messages import match_message, message_row
from unhang.late_pattern import late_pattern

# What the launcher raises for a rank that failed is known from its module too: a broken line ends inside of its name.
_ECHO_TYPES = late_pattern(
    r"^torch\.distributed\.elastic\.multiprocess"
    r"|(DistBackendError|DistNetworkError|DistStoreError|ChildFailedError|SignalException|ProcessRaisedException|RanksMissing|RankFailed"
    r"|ProcessExitedException|TrainingFailedError|WorkerGroupError|RendezvousConnectionError|BrokenPipeError|ConnectionResetError|BrokenProcessPool)$"
)


_PYTHON_CONNECTIONS = {"BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "EOFError"}


_ECHO_TEXT = late_pattern(
    r"Connection (closed by peer|reset by peer|was likely closed)|Timed out waiting \d+ ?ms|Socket Timeout"
    r"|Broken pipe|Application timeout caused pair closure|NCCL (error|communicator was aborted|timeout)"
    r"|collective operation timeout|monitoredBarrier|wait timeout after \d+ ?ms|Connection refused"
    r"|connectFullMesh failed|remote process exited|transport retry counter|recvBytes|failed to recv"
    r"|Detected mismatch between collectives|out of sync|aborted communicator|Socket timeout",
    re.IGNORECASE,
)


_WAITED = frozenset(("echo", "missing-rank", "store-timeout", "timeout", "waiting"))
_CLIENT_ERRORS = late_pattern(
    r"^(?:httpx|httpcore|requests|aiohttp|openai|urllib3|grpc|zmq|asyncio|concurrent|ray)\b.*"
    r"(?:Timeout|TimeoutError|ConnectError|ConnectionError|ReadError|ProtocolError|Disconnected\w*|ConnectorError|RpcError|Again)$"
)
_OUTSIDE = late_pattern(r"/(?:huggingface_hub|datasets|wandb|mlflow|swanlab|s3fs|boto\w*|gcsfs|fsspec)/")

# Connections of the program's own: a loader's worker, a file server. torch.distributed never raises through these.
_OWN_CONNECTIONS = late_pattern(r"/(torch/utils/data|urllib3|requests|botocore|aiohttp|fsspec|http/client\.py)(/|$)")


_OOM_TYPES = late_pattern(r"(OutOfMemoryError|CUDA_OUT_OF_MEMORY)$")


_OOM_TEXT = late_pattern(
    r"(CUDA|HIP|XPU|NPU)?\s*out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation", re.IGNORECASE
)


_HOST_OOM = late_pattern(
    r"Cannot allocate memory|\bnode running low on memory|DefaultCPUAllocator: can't allocate|(?<!OutOf)MemoryError"
)


def is_echo(traceback: PythonTraceback) -> bool:
    """The exception says that a partner is gone or that waiting took too long: a consequence, not a cause."""
    if is_gpu_out_of_memory(traceback.exception, traceback.message):
        return False
    if traceback.exception in _PYTHON_CONNECTIONS and _from_own_connection(traceback):
        return False
    if _ECHO_TYPES.search(traceback.exception) or raised_by_launcher(traceback):
        return True
    if traceback.exception == "Exception" and traceback.message.strip(" -")[:8] in ("", "Process "):
        return True  # what torch.multiprocessing raised for a child, whose own traceback follows
    if parse_guard_error(traceback) is not None:  # it waited for others and says why it waits no more
        return True
    if _waited(f"{traceback.exception}: {traceback.message}"):
        return True
    return bool(_ECHO_TEXT.search(without_guesses(traceback.message))) or _points_elsewhere(traceback)


def says_wait(kind: str) -> bool:
    """A message of this kind says that its process waited for another, or carries what another raised."""
    row = message_row(kind)
    return row.says in _WAITED and row.cause is None and not row.fallback


@lru_cache(maxsize=4096)
def _waited(text: str) -> bool:
    rows = [match.row for match in match_message(text[:2000].replace("\n", " "))]
    return any(says_wait(row.id) for row in rows) and all(row.cause is None for row in rows)


def asked_another_world(traceback: PythonTraceback, beside: Collection[str]) -> bool:
    """A client's error where other worlds of the job answer such calls: one did not, and its own lines say why. What is
    asked of others (a hub, a store, a tracker) is the process' own failure."""
    if not beside or _CLIENT_ERRORS.search(traceback.exception) is None:
        return False
    return not any(_OUTSIDE.search(frame.file) for frame in traceback.frames)


def _points_elsewhere(traceback: PythonTraceback) -> bool:
    said = find_failure_statement(f"{traceback.exception}: {traceback.message}".replace("\n", " "), raised=True)
    return said is not None and said.row.strength == ELSEWHERE


def raised_by_launcher(traceback: PythonTraceback) -> bool:
    """The launcher's own process raises in this function for a rank that failed; the name of the error may be torn."""
    last = traceback.frames[0] if traceback.frames else None
    return last is not None and last.function == "launch_agent" and LAUNCHER in last.file


def _from_own_connection(traceback: PythonTraceback) -> bool:
    """The main thread lost its own loader's worker or a server, not a partner. A loader's other threads only notice
    that the process is ending."""
    if traceback.thread not in ("", "MainThread") or any("pin_memory" in f.function for f in traceback.frames):
        return False
    return any(_OWN_CONNECTIONS.search(frame.file.replace("\\", "/")) for frame in traceback.frames)


def is_gpu_out_of_memory(exception: str, message: str) -> bool:
    """Accelerator memory ran out."""
    message = without_guesses(message)
    if _OOM_TYPES.search(exception):
        return not _HOST_OOM.search(message)
    return bool(_OOM_TEXT.search(message)) and not _HOST_OOM.search(message) and "NCCL" not in message[:40]


_Key = tuple[str, str, Frame | None]


def unique_tracebacks(tracebacks: Iterable[PythonTraceback]) -> tuple[PythonTraceback, ...]:
    """Each exception once: where the shared log names no rank and a rank's own file has the same, the log's place and
    the rank. A log orders what several ranks raised; which of them it was, only their own files tell."""
    every = tuple(tracebacks)
    ranks: dict[_Key, dict[int, int]] = defaultdict(dict)
    for number, one in enumerate(every):
        if one.rank is not None:
            ranks[_key(one)].setdefault(one.rank, number)
    placed = dict(enumerate(every))
    for number, one in placed.copy().items():
        owners = ranks[_key(one)] if one.rank is None else {}
        if owners and all(every[copy].source.path != one.source.path for copy in owners.values()):
            rank = min(owners)
            del placed[owners.pop(rank)]
            placed[number] = replace(one, rank=rank)
    return tuple(placed.values())


def _key(traceback: PythonTraceback) -> _Key:
    first_line = traceback.message.partition("\n")[0][:200]
    return traceback.exception, first_line, traceback.frames[0] if traceback.frames else None


def stack_at_exit(facts: RankFacts) -> StackDump | None:
    """The rank's first echo as a stack; None when it has none, or failed by itself before."""
    first = next(iter(facts.tracebacks), None)
    if first is None or not first.frames or not is_echo(first) or is_user_frame(first.frames[0]):
        # A traceback that ends in the user's own code was cut: the call it stood in is missing.
        return None
    thread = ThreadStack(first.thread or "MainThread", "", first.frames, line=first.source.line)
    return StackDump(first.source, facts.rank, facts.pid, (thread,), "traceback", time_s=first.time_s)
