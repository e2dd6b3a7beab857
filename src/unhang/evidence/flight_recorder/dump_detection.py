"""Tell a flight-recorder dump by the first bytes of a file."""

from __future__ import annotations

import re
from typing import Final

_PICKLE_STARTS: Final = tuple(
    bytes([0x80, protocol]) + first for protocol in (2, 3, 4, 5) for first in (b"}", b"]", b"(", b"\x95", b"c")
)
_OLD_PICKLE: Final = re.compile(rb"\([dl]p0\n|[}\]]q\x00")
"""Protocols 0 and 1 have no magic number: a container that is stored in the first slot."""
_STRONG: Final = (
    b"pg_config",
    b"pg_status",
    b"comm_lib_version",
    b"nccl_version",
    b"nccl_comm_state",
    b"profiling_name",
    b"collective_seq_id",
    b"p2p_seq_id",
    b"time_created_ns",
    b"time_created_us",
)


TORCH_START: Final = b"\x80\x02}("
"""How torch starts a dump that has a status; Python's pickler would store the dict at once."""


def is_read_at_both_ends(start: bytes) -> bool:
    """Whether a dump that starts so is read by its header and the end of its ring, as torch writes them."""
    return start.startswith(TORCH_START) and looks_like_flight_recorder(start)


def looks_like_pickle(head: bytes) -> bool:
    """Whether ``head`` starts a pickle that holds (or imports) something."""
    return head.startswith(_PICKLE_STARTS) or _OLD_PICKLE.match(head) is not None


def looks_like_flight_recorder(head: bytes) -> bool:
    """Whether the file that starts with ``head`` (some KiB) is a flight-recorder dump, pickle or JSON, by content."""
    if looks_like_pickle(head):
        return any(word in head for word in _STRONG) or (b"entries" in head and b"version" in head)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")):
        return False
    return any(b'"' + word + b'"' in text for word in _STRONG)
