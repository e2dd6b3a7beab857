"""Errors that several causes would explain, where nothing that was read tells which of them it is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import events_stating, field_text, first_attempt, ranks_of_events
from unhang.facts.machine.nccl_reports import shared_host_identity
from unhang.facts.model import Facts
from unhang.knowledge.messages import MessageRow

MAY_BE_A_KERNEL = ("cuda.launch", "hip.hang")
"""A kernel of the program brings these about as well."""
_VAGUE = ("unknown error", "hardware", "misaligned", "stack error", "unspecified launch failure")
_P2P_FILE = re.compile(r"transport/p2p\.c[cu]|shm\.cc|cudaIpc|IPC", re.IGNORECASE)


_NO_ERROR = ("setting", "init", "note", "call-path", "nccl-error")
"""Lines of NCCL that say these things name no error, or only its kind."""


def unexplained_usage_errors(facts: Facts) -> tuple[LogEvent, ...]:
    """NCCL calls it invalid usage, and no line of NCCL's own (`Last error:`, a warning) says of what."""
    if any(e.kind != "n.ver" for e in facts.events_where(_names_error)):
        return ()
    events = first_attempt(facts.events_of("ncclerr", "ncclerr.kind"))
    return tuple(e for e in events if "invalid usage" in e.text or "ncclInvalidUsage" in e.text)


_LINES_OF_ONE_ERROR = 3
"""`… raised the following async exception`, the kind of error, `Last error:`, and what NCCL said last: printed at once,
and only the first of them names a rank."""


def ranks_of_last_errors(facts: Facts, events: Iterable[LogEvent]) -> tuple[int, ...]:
    """The ranks that printed ``events``, or the exception at whose end they stand."""
    heads = {
        (head.source.path, (head.source.line or 0) + lines): head
        for head in events_stating(facts, "async-error")
        for lines in range(1, _LINES_OF_ONE_ERROR + 1)
    }
    return ranks_of_events(
        e if e.rank is not None else heads.get((e.source.path, e.source.line or 0), e) for e in events
    )


def _names_error(row: MessageRow) -> bool:
    return row.id.startswith("n.") and row.says not in _NO_ERROR


def unexplained_device_errors(facts: Facts) -> tuple[LogEvent, ...]:
    """CUDA's vague errors, where neither an error of the program nor its own exception may have led to them."""
    if facts.events_of("cuda.assert", "cuda.illegal", "oom", "oom.cuda"):
        return ()
    if any(t.exception and "CUDA" not in t.message and "cuda" not in t.message for t in facts.tracebacks):
        return ()
    events = first_attempt(facts.events_of("cuda.error", "cuda.launch", "n.cuda", "hip.hang"))
    return tuple(e for e in events if e.kind in MAY_BE_A_KERNEL or _says_vague(field_text(e, "error").lower()))


def _says_vague(error: str) -> bool:
    return any(word in error for word in _VAGUE)


def refused_peer_memory(facts: Facts) -> tuple[LogEvent, ...]:
    """GPUs could not map each other's memory, and NCCL did not take two machines for one."""
    if shared_host_identity(facts) is not None:
        return ()
    nccl = first_attempt(facts.events_of("n.cuda"))
    cuda = first_attempt(facts.events_of("cuda.error"))
    return (
        *(e for e in nccl if _P2P_FILE.search(e.text.split("NCCL WARN")[0])),
        *(e for e in cuda if "peer" in field_text(e, "error")),
    )
