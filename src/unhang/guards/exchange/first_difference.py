"""The first place where one rank's value differs from another's: both show their parts, level by level."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unhang.guards.fingerprints.nodes import Limits, Node, outline

_LEVELS = 40

Exchange = Callable[[bytes], dict[int, bytes]]
"""One round between all ranks: what this rank says, and what each of them said."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """Where two ranks first differ. ``place`` is written as Python would: ``['train'][17]``; empty for the value."""

    place: str
    what: str


def first_difference(
    node: Node | None, limits: Limits, mine: int, pair: tuple[int, int], exchange: Exchange
) -> ValueDifference:
    """The first difference between the two ranks of ``pair``. Every rank calls this, and learns the same answer.

    ``exchange`` is called equally often on every rank; only the pair says anything.
    """
    place = ""
    for _ in range(_LEVELS):
        own = _say(node, limits) if mine in pair else {}
        said = exchange(json.dumps(own).encode())
        left, right = (_heard(said.get(rank)) for rank in pair)
        found = _at_this_level(place, left, right, pair)
        if isinstance(found, ValueDifference):
            return found
        place += "" if found.startswith("~") else found
        if mine in pair and node is not None:
            node = _descend(node, found)
    return ValueDifference(place, "nested too deeply to say more")


def _say(node: Node | None, limits: Limits) -> dict[str, Any]:
    return {} if node is None else outline(node, limits)


def _descend(node: Node, label: str) -> Node | None:
    try:
        return node.child(label)
    except Exception:  # noqa: BLE001 - a data set's own code runs here, and its rank still has to answer
        return None


def _heard(said: bytes | None) -> dict[str, Any]:
    return dict(json.loads(said)) if said else {}


def _at_this_level(
    place: str, left: dict[str, Any], right: dict[str, Any], pair: tuple[int, int]
) -> ValueDifference | str:
    """The difference, or the label of the part to look into."""
    if not left or not right:
        return ValueDifference(place, "could not be read a second time")
    if left["size"] != right["size"] and None not in (left["size"], right["size"]):
        return ValueDifference(place, _lengths(left, right, pair))
    if left["kind"] != right["kind"]:
        return ValueDifference(place, _kinds(left, right, pair))
    if left["parts"] is None or right["parts"] is None:
        return ValueDifference(place, _values(left, right, pair))
    ours, theirs = dict(left["parts"]), dict(right["parts"])
    for label, digest in ours.items():
        if label not in theirs and not label.startswith("~"):
            return ValueDifference(place + label, f"only on rank {pair[0]}")
        if label in theirs and theirs[label] != digest:
            return str(label)
    extra = next((label for label in theirs if label not in ours and not label.startswith("~")), None)
    return (
        ValueDifference(place, "different parts")
        if extra is None
        else ValueDifference(place + extra, f"only on rank {pair[1]}")
    )


def _lengths(left: dict[str, Any], right: dict[str, Any], pair: tuple[int, int]) -> str:
    return _beside(f"length {left['size']}", str(right["size"]), pair)


def _kinds(left: dict[str, Any], right: dict[str, Any], pair: tuple[int, int]) -> str:
    return _beside(f"{left['kind']} {left['shown']}".strip(), f"{right['kind']} {right['shown']}".strip(), pair)


def _values(left: dict[str, Any], right: dict[str, Any], pair: tuple[int, int]) -> str:
    if left["shown"] == right["shown"]:
        return f"{left['kind']} with different content"
    return _beside(left["shown"], right["shown"], pair)


def _beside(left: str, right: str, pair: tuple[int, int]) -> str:
    return f"{left} on rank {pair[0]}, {right} on rank {pair[1]}"
