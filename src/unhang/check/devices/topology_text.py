"""Read what ``nvidia-smi topo``, ``nvidia-smi nvlink -s`` and ``lspci -vvv`` print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from unhang.check.devices.topology import CardTopology, NvLinks, Pair, PeerAccess

MAX_CHARACTERS = 1_000
"""Characters read of a line of lspci."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NAME = re.compile(r"GPU(\d{1,6})")
_WAY = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d{1,4}|OK|C?NS|GNS|TNS|U|SOC")
_GPU = re.compile(r"^GPU (\d{1,6}):")
_LINK = re.compile(r"^\s+Link \d+: (.+)$")
_BELOW = re.compile(r"Bus: primary=[0-9a-f]+, secondary=(?P<first>[0-9a-f]+), subordinate=(?P<last>[0-9a-f]+)")
_DEVICE = re.compile(r"^(?P<bus>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<rest>.*)$")


def parse_topology(text: str) -> CardTopology | None:
    """The matrix of ``nvidia-smi topo -m``; None when there is none in ``text``.

    Columns are told apart by tabs, or by two blanks where a paste has lost them. ``NUMA Affinity`` is a number, a list,
    or N/A: the first number counts.
    """
    states, rows, columns = _matrix(text)
    if not rows:
        return None
    at = columns.index("NUMA Affinity") if "NUMA Affinity" in columns else None
    numa: dict[int, int] = {}
    for index, cells in rows.items():
        cell = cells[at] if at is not None and at < len(cells) else ""
        number = re.match(r"\d{1,6}", cell)
        if number is not None:
            numa[index] = int(number[0])
    return CardTopology({pair: "SYS" if way == "SOC" else way for pair, way in states.items()}, numa)


def parse_peer_access(text: str) -> PeerAccess | None:
    """The matrix of ``nvidia-smi topo -p2p r``; None when there is none."""
    states, rows, _ = _matrix(text)
    return PeerAccess(states) if rows else None


def _matrix(text: str) -> tuple[dict[Pair, str], dict[int, list[str]], list[str]]:
    states: dict[Pair, str] = {}
    rows: dict[int, list[str]] = {}
    columns: list[str] = []
    for line in _COLOUR.sub("", text).splitlines():
        cells = _cells(line)
        if not columns:
            columns = cells if cells and _NAME.fullmatch(cells[0]) and len(cells) > 1 and cells[1] != "X" else []
            continue
        name = _NAME.fullmatch(cells[0]) if cells else None
        if name is None:
            if rows:
                break
            continue
        row, values = int(name[1]), cells[1:]
        rows[row] = values
        for column, value in zip(columns, values, strict=False):
            other = _NAME.fullmatch(column)
            if other is not None and int(other[1]) != row and _WAY.fullmatch(value):
                states[row, int(other[1])] = value
    return states, rows, columns


def _cells(line: str) -> list[str]:
    parts = line.split("\t") if "\t" in line else re.split(r" {2,}", line)
    return [part.strip() for part in parts if part.strip()]


def parse_nvlinks(text: str) -> NvLinks | None:
    """Links up and down of each card in ``nvidia-smi nvlink -s``; None when it tells of none."""
    links: dict[int, Pair] = {}
    card: int | None = None
    for line in text.splitlines():
        start, link = _GPU.match(line), _LINK.match(line)
        if start is not None:
            card = int(start[1])
        elif link is not None and card is not None:
            up, down = links.get(card, (0, 0))
            links[card] = (up, down + 1) if "inactive" in link[1] else (up + 1, down)
    return NvLinks(links) if links else None


def redirecting_bridges(text: str, cards: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Bridges above ``cards`` (buses) in ``lspci -D -vvv`` that redirect requests, and whether that could be read.

    ``ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ …``: ReqRedir sends what one card asks of another up to the
    processor. ``Bus: primary=15, secondary=16, subordinate=19`` tells what stands below a bridge. Without root, lspci
    prints ``Capabilities: <access denied>`` instead.
    """
    found: list[str] = []
    readable = True
    for bus, name, lines in _devices(text):
        below = next((match for line in lines if (match := _BELOW.search(line)) is not None), None)
        if "PCI bridge" not in name or (below is not None and not _holds(bus, below, cards)):
            continue
        readable = readable and not any("<access denied>" in line for line in lines)
        if any(re.search(r"ACSCtl:.*ReqRedir\+", line) for line in lines):
            found.append(bus)
    return tuple(found), readable


def _devices(text: str) -> Iterator[tuple[str, str, list[str]]]:
    bus, name, lines = "", "", list[str]()
    for line in text.splitlines():
        device = _DEVICE.match(line)
        if device is None:
            lines.append(line[:MAX_CHARACTERS])
            continue
        yield bus, name, lines
        bus, name, lines = device["bus"], device["rest"], []
    yield bus, name, lines


def _holds(bridge: str, below: re.Match[str], cards: Sequence[str]) -> bool:
    """Whether one of ``cards`` stands on a bus behind the bridge, in its domain."""
    domain = bridge.rpartition(":")[0].rpartition(":")[0]
    first, last = int(below["first"], 16), int(below["last"], 16)
    places = [card.split(":") for card in cards]
    return any(place[0] == domain and first <= int(place[1], 16) <= last for place in places if len(place) == 3)
