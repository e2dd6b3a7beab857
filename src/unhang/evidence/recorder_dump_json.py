"""A recording written back as flight-recorder JSON (with frames), so that a redacted case can be read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from unhang.evidence.items import Frame, RecorderDump, RecorderEntries, Signature

_VERSION = "2.10"
_STATES = ("scheduled", "started", "completed")


def recorder_dump_as_json(recording: RecorderDump, redact: Callable[[str], str] = str) -> bytes:
    """``recording`` in the shape of torch 2.9 and later; ``redact`` rewrites texts that may name something private.

    What a reader derives (byte offsets, how much was left unread) is not in it.
    """
    clean = lru_cache(maxsize=None)(redact)
    entries = recording.entries
    writer = _EntryWriter(recording, clean)
    document = {
        "version": recording.format_version if recording.format_version not in ("", "1.4") else _VERSION,
        "comm_lib_version": recording.library_version,
        "pg_config": {
            name: {"name": clean(group.name), "desc": clean(group.description), "ranks": str(list(group.ranks or ()))}
            for name, group in recording.groups.items()
        },
        "pg_status": {
            key: {
                "last_enqueued_collective": str(status.last_enqueued),
                "last_started_collective": str(status.last_started),
                "last_completed_collective": str(status.last_completed),
            }
            for key, status in recording.status.items()
        },
        "entries": [writer.entry(entries, index) for index in range(len(entries))],
    }
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        return json.dumps(document).encode()


class _EntryWriter:
    """Keeps what entries share: frames of a stack, this rank's place in each group."""

    def __init__(self, recording: RecorderDump, clean: Callable[[str], str]) -> None:
        self._recording = recording
        self._clean = clean
        self._stacks = [[self._frame(frame) for frame in stack] for stack in recording.entries.stacks]

    def _frame(self, frame: Frame) -> dict[str, Any]:
        return {"name": self._clean(frame.function), "filename": self._clean(frame.file), "line": frame.line or 0}

    def entry(self, entries: RecorderEntries, index: int) -> dict[str, Any]:
        name, description = entries.group_names[int(entries.group[index])]
        signature = entries.signatures[int(entries.signature[index])]
        is_p2p = bool(entries.is_p2p[index])
        position = int(entries.position[index])
        stack = int(entries.stack[index])
        written: dict[str, Any] = {
            "record_id": int(entries.record_id[index]),
            "pg_id": int(entries.pg_id[index]),
            "process_group": [self._clean(name), self._clean(description)],
            "collective_seq_id": 0 if is_p2p else position,
            "p2p_seq_id": position if is_p2p else 0,
            "op_id": position,
            "profiling_name": f"{self._recording.backend or 'nccl'}:{self._operation(signature, name)}",
            "time_created_ns": int(entries.created_ns[index]),
            "input_sizes": signature.input_sizes,
            "input_dtypes": signature.input_dtypes,
            "output_sizes": signature.output_sizes,
            "output_dtypes": signature.output_dtypes,
            "state": _STATES[int(entries.state[index])],
            "time_discovered_started_ns": int(entries.started_ns[index]),
            "time_discovered_completed_ns": int(entries.completed_ns[index]),
            "retired": bool(entries.retired[index]),
            "is_p2p": is_p2p,
        }
        if int(entries.timeout_ms[index]) >= 0:
            written["timeout_ms"] = int(entries.timeout_ms[index])
        if stack >= 0:
            written["frames"] = self._stacks[stack]
        return written

    def _operation(self, signature: Signature, group: str) -> str:
        if signature.peer is None:
            return signature.operation
        config = self._recording.groups.get(group)
        own = self._recording.rank
        if config is not None and config.ranks is not None and own in config.ranks:
            own = config.ranks.index(own)
        arrow = "<-" if signature.operation == "recv" else "->"
        return f"{signature.operation} {own or 0}{arrow}{signature.peer}"
