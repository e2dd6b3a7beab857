"""What a leader says to the other nodes: that it is there, what it wants of them, and the verdict it gave."""

from __future__ import annotations

import msgspec

from unhang.wire.documents.document import DECODE_ERRORS
from unhang.wire.documents.verdict_summary import VerdictSummary

MAX_TEXT = 200_000
"""Bytes of a verdict's file; a longer one does not travel."""


class SampleRequest(msgspec.Struct, array_like=True, frozen=True):
    """Evidence is wanted. ``since_ns``: the leader's monotonic clock, since when ranks wait (-1: they do not);
    ``nodes``: of which nodes, empty: of all; ``live``: the job still runs; ``samples``: so many, at a job that
    moves, 0 where ranks wait."""

    number: int
    since_ns: int
    with_stacks: bool = False
    live: bool = True
    nodes: list[int] = []
    samples: int = 0


class LeaderMessage(msgspec.Struct, array_like=True, frozen=True):
    """A leader at ``at_ns`` of its clock. ``whole``: digests are wanted with columns; ``said``: number of its last
    verdict (``v/N``), 0 before there was one; ``over``: it is about to leave."""

    at_ns: int
    whole: bool = False
    request: SampleRequest | None = None
    said: int = 0
    over: bool = False


class LeaderVerdict(msgspec.Struct, array_like=True, frozen=True):
    """A verdict for all nodes, or (``ended``) that the wait it was about is over. ``abort``: the job is being ended."""

    number: int
    node: str
    folder: str
    summary: VerdictSummary
    verdict: bytes = b""
    ended: bool = False
    abort: bool = False


def encode_message(value: LeaderMessage | LeaderVerdict) -> bytes:
    """As msgpack, by position."""
    return msgspec.msgpack.encode(value)


def read_leader_message(data: bytes) -> LeaderMessage | None:
    """What :func:`encode_message` made; None for anything else."""
    try:
        return msgspec.msgpack.decode(data, type=LeaderMessage)
    except DECODE_ERRORS:
        return None


def read_leader_verdict(data: bytes) -> LeaderVerdict | None:
    """What :func:`encode_message` made; None for anything else."""
    try:
        return msgspec.msgpack.decode(data, type=LeaderVerdict)
    except DECODE_ERRORS:
        return None
