"""``machine/nodes.json``: the other nodes of a job as the leader's watcher saw them when it took samples.

A file like any other: every value is checked, and one that cannot be right makes the whole file unread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from unhang.findings import Source, Unread
from unhang.wire.documents.document import DECODE_ERRORS

SCHEMA = "unhang.nodes/1"
MAX_NODES, MAX_RANKS, MAX_TEXT = 65_536, 65_536, 512


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """How far ranks of one node had come in one group: columns of one length."""

    group: str
    rank: tuple[int, ...]
    enqueued: tuple[int, ...]
    completed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node as another saw it. ``silent_s``: since when its watcher said nothing, None: it spoke; ``answers``:
    whether its machine answered then, None: not asked; ``answered``: it had answered earlier; ``positions``: what its
    watcher told, where its evidence was not asked for."""

    source: Source
    name: str
    host: str
    ranks: tuple[int, ...]
    silent_s: float | None = None
    answers: bool | None = None
    answered: bool = False
    asked: bool = False
    came: bool = False
    positions: tuple[GroupPositions, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    name: str
    host: str = ""
    ranks: tuple[int, ...] = ()
    silent_s: float | None = None
    answers: bool | None = None
    answered: bool = False
    asked: bool = False
    came: bool = False
    positions: tuple[GroupPositions, ...] = ()


class _Nodes(msgspec.Struct, frozen=True):
    schema: str
    nodes: tuple[_Node, ...] = ()


def read_nodes(raw: bytes, *, source: Source) -> tuple[ObservedNode, ...] | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    try:
        found = msgspec.json.decode(raw, type=_Nodes)
    except DECODE_ERRORS as error:
        return Unread(source, f"is not a listing of nodes: {str(error)[:200]}")
    if found.schema != SCHEMA or len(found.nodes) > MAX_NODES or not all(map(_possible, found.nodes)):
        return Unread(source, "is a listing of nodes that cannot be right")
    return tuple(ObservedNode(source, **msgspec.structs.asdict(node)) for node in found.nodes)


def _possible(node: _Node) -> bool:
    texts = all(len(text) <= MAX_TEXT and text.isprintable() for text in (node.name, node.host))
    ranks = len(node.ranks) <= MAX_RANKS and all(0 <= rank < 1_000_000 for rank in node.ranks)
    silent = node.silent_s is None or (math.isfinite(node.silent_s) and 0 <= node.silent_s < 1e9)
    return texts and bool(node.name) and ranks and silent and all(map(_whole, node.positions))


def _whole(positions: GroupPositions) -> bool:
    lengths = {len(positions.rank), len(positions.enqueued), len(positions.completed)}
    named = len(positions.group) <= MAX_TEXT and positions.group.isprintable()
    return named and len(lengths) == 1 and all(0 <= rank < 1_000_000 for rank in positions.rank)
