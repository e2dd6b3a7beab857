"""Lines that a collector packed into JSON (docker, Fluent Bit, cloud consoles), as the program had printed them.

A log is looked at once, at its beginning; one that is not packed goes on untouched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain

_TEXT_KEYS = ("log", "message", "msg", "line", "textPayload", "MESSAGE")
_TIME_KEYS = ("time", "@timestamp", "timestamp", "ts", "date")
_OUTER_KEYS = {
    *_TEXT_KEYS,
    *_TIME_KEYS,
    *("stream", "logtag", "tag", "kubernetes", "docker", "attrs", "labels", "resource", "source", "host", "hostname"),
    *("pod", "container", "namespace", "level", "severity", "insertId", "logName", "receiveTimestamp", "file"),
    *("PRIORITY", "job", "instance", "id", "offset", "input", "agent", "ecs", "log_id"),
}
"""What collectors add to a line; records with other keys (``step``, ``loss``) are a program's own and stay."""
_ISO = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_SAMPLE_LINES = 20


def unwrap_json_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """``blocks`` of whole lines; of a log packed into JSON what was in it, a line for a line."""
    first = next(blocks, b"")
    rest = chain((first,), blocks) if first else blocks
    return map(_unpacked_block, rest) if _packed(first) else rest


def _packed(block: bytes) -> bool:
    """Whether the log begins with lines packed into JSON."""
    if block.lstrip()[:1] != b"{":
        return False
    lines = [line for line in block[: 1 << 16].split(b"\n")[: _SAMPLE_LINES + 1] if line.strip()]
    if len(lines) > 1 and len(block) > 1 << 16:
        lines.pop()
    return bool(lines) and all(_unpacked_line(line) is not None for line in lines[:_SAMPLE_LINES])


def _unpacked_block(block: bytes) -> bytes:
    lines = block.split(b"\n")
    return b"\n".join(line if (whole := _unpacked_line(line)) is None else whole for line in lines)


def _unpacked_line(line: bytes) -> bytes | None:
    """What a program had printed, behind the collector's time; None when ``line`` is not such a record."""
    if line.lstrip()[:1] != b"{":
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = next((key for key in _TEXT_KEYS if isinstance(record.get(key), str)), None)
    if key is None or not all(
        name in _OUTER_KEYS or name.startswith(("_", "kubernetes", "container_")) for name in record
    ):
        return None
    time = next((record[name] for name in _TIME_KEYS if isinstance(record.get(name), str)), "")
    text = record[key].rstrip("\r\n")
    # Lines of one record keep its number: the reader splits at carriage returns without counting.
    outer = f"{time} " if _ISO.fullmatch(time) else ""
    return "\r".join(outer + part for part in text.split("\n")).encode("utf-8", "replace")
