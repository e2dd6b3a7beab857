"""Evidence on its way: one packed file in parts, with its sum; what is too large stays on its node."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from unhang.watch import private_files
from unhang.watch.nodes.rank_digest import decoded
from unhang.watch.nodes.transport.key_value_exchange import MAX_BYTES, SignedValues

MAX_PARTS = 64
EXIT_EVIDENCE_NUMBER = 1 << 30
"""The number of evidence that a node left behind when its command failed: it belongs to every sample after it."""
_PART = MAX_BYTES - 4096


class EvidenceAnnouncement(msgspec.Struct, array_like=True, frozen=True):
    """A node's evidence for sample ``number`` is there, in so many parts. 0 parts: there is none."""

    number: int
    parts: Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTS)]
    size: int
    sha256: bytes


def send_evidence(sealed: SignedValues, seat: int, number: int, content: bytes) -> int:
    """Leave ``content`` for the others; returns the bytes that went out."""
    parts = [content[at : at + _PART] for at in range(0, len(content), _PART)]
    if len(parts) > MAX_PARTS:
        parts, content = [], b""
    sent = sum(sealed.put(f"e/{seat}/{at}", part) for at, part in enumerate(parts))
    told = EvidenceAnnouncement(number, len(parts), len(content), hashlib.sha256(content).digest())
    return sent + sealed.put(f"p/{seat}", msgspec.msgpack.encode(told))


class EvidenceFetch:
    """The evidence of ``nodes`` for one sample, on its way into ``folder`` as ``NODE.zip``."""

    def __init__(self, number: int, nodes: Sequence[int], folder: Path) -> None:
        self.number, self._wanted, self._folder = number, set(nodes), folder
        self.came: set[int] = set()

    def tick(self, sealed: SignedValues) -> int:
        """Take what is there by now; returns the bytes that came in."""
        received = 0
        left = sorted(self._wanted - self.came)
        for key, value in (sealed.get([f"p/{node}" for node in left]) if left else {}).items():
            received += len(value)
            told = decoded(value, EvidenceAnnouncement)
            if told is None or told.number not in (self.number, EXIT_EVIDENCE_NUMBER):
                continue
            node = int(key[2:])
            content = _content(sealed, node, told)
            if content is not None:
                received += len(content)
                private_files.write_atomically(self._folder / f"{node}.zip", content)
                self.came.add(node)
        return received


def _content(sealed: SignedValues, node: int, told: EvidenceAnnouncement) -> bytes | None:
    keys = [f"e/{node}/{at}" for at in range(told.parts)]
    parts = sealed.get(keys) if keys else {}
    content = b"".join(parts.get(key, b"") for key in keys)
    return content if hashlib.sha256(content).digest() == told.sha256 else None
