"""``machine/nodes.json``: the other nodes of a job as the leader's watcher saw them when it took samples."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from unhang.findings import Source, Unread
from unhang.wire.documents.document import Document, Name, Part, Rank, Seconds, read_document

MAX_NODES = MAX_RANKS = 65_536
Ranks = Annotated[tuple[Rank, ...], msgspec.Meta(max_length=MAX_RANKS)]


class GroupPositions(msgspec.Struct, frozen=True):
    """How far ranks of one node had come in one group: columns of one length."""

    group: Name
    rank: Ranks
    enqueued: tuple[int, ...]
    completed: tuple[int, ...]


class ObservedNode(Part, frozen=True, kw_only=True):
    """One node as another saw it. ``silent_s``: since when its watcher said nothing, None: it spoke; ``answers``:
    whether its machine answered then, None: not asked; ``answered``: it had answered earlier; ``asked``: its evidence
    was, and ``came``; ``ahead_s``: its clock against the leader's; ``positions``: what its watcher told, where its
    evidence was not asked for."""

    name: Annotated[Name, msgspec.Meta(min_length=1)]
    number: int = -1
    host: Name = ""
    ranks: Ranks = ()
    silent_s: Seconds | None = None
    answers: bool | None = None
    answered: bool = False
    asked: bool = False
    came: bool = False
    ahead_s: float = 0.0
    positions: tuple[GroupPositions, ...] = ()


class ObservedNodes(Document, frozen=True, kw_only=True, tag="unhang.nodes/1"):
    """The whole file."""

    nodes: Annotated[tuple[ObservedNode, ...], msgspec.Meta(max_length=MAX_NODES)] = ()

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        told = [positions for node in self.nodes for positions in node.positions]
        if all(len(one.rank) == len(one.enqueued) == len(one.completed) for one in told):
            return ""
        return "columns of different length"


def read_nodes(raw: bytes, *, source: Source) -> tuple[ObservedNode, ...] | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    found = read_document(ObservedNodes, raw, "a listing of nodes", source)
    return found if isinstance(found, Unread) else tuple(replace(node, source=source) for node in found.nodes)
