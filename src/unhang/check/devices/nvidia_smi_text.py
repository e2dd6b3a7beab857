"""Read nvidia-smi's report (``-q``) and its table, for the cards a query did not give."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.check.devices.devices import Card, Cards

MAX_CHARACTERS = 400
"""Of a line; longer ones are none of nvidia-smi's."""
_CARD = re.compile(r"^GPU (?P<bus>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$", re.MULTILINE)
_LINE = re.compile(r"^(?P<indent> *)(?P<key>[^:\n]+?) *(?:: (?P<value>.*))?$")
_ROW = re.compile(
    r"^\|\s+(?P<index>\d{1,6})\s+(?P<name>\S.*?)\s+(?:On|Off|N/A)\s+\|\s+(?P<bus>[0-9A-Fa-f]{8}:\S+)\s+\S+\s+\|\s+(?P<ecc>\S+)"
)
_USE = re.compile(
    r"\|\s+(?P<used>\d{1,12})MiB\s+/\s+(?P<total>\d{1,12})MiB\s+\|\s+(?P<busy>\d+|N/A)%?\s+(?P<mode>\S.*?)\s+\|"
)
_DRIVER = re.compile(r"Driver Version\s*: (\S+)")


def leading_integer(cell: str) -> int | None:
    """The number a cell begins with (``16x``, ``30 C``); None for ``[N/A]`` and the like."""
    found = re.match(r"\d+", cell.strip())
    return int(found[0][:15]) if found else None


def bytes_of_mib(cell: str) -> int:
    """Bytes; 0 when no number is given."""
    return (leading_integer(cell) or 0) << 20


def normal_bus(bus: str) -> str:
    """``00000000:3B:00.0`` as ``/sys`` spells it: ``0000:3b:00.0``."""
    domain, _, rest = bus.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else bus.strip().lower()


def parse_report(text: str) -> Cards | None:
    """The cards of ``nvidia-smi -q``; None when it lists none."""
    driver = _DRIVER.search(text)
    cards = [_card(index, bus, told) for index, (bus, told) in enumerate(_blocks(text))]
    return Cards(tuple(cards), driver=driver[1] if driver else "") if cards else None


def parse_fabric_states(text: str) -> dict[str, tuple[str, str]]:
    """State and status in the NVLink fabric by bus, of cards that tell them; from ``nvidia-smi -q``."""
    states = {bus: (told.get("Fabric/State", "N/A"), told.get("Fabric/Status", "N/A")) for bus, told in _blocks(text)}
    return {bus: told for bus, told in states.items() if told[0] != "N/A"}


def _blocks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    starts = list(_CARD.finditer(text))
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        yield normal_bus(start["bus"]), dict(_entries(text[start.end() : end]))


def parse_table(text: str) -> Cards:
    """The cards of plain ``nvidia-smi``; none when it is no such table."""
    driver = re.search(r"Driver Version: (\S+)", text)
    cards: list[Card] = []
    lines = [line for line in text.splitlines() if len(line) <= MAX_CHARACTERS]
    for at, line in enumerate(lines):
        row, use = _ROW.match(line), _USE.search(lines[at + 1]) if at + 1 < len(lines) else None
        if row is None or use is None:
            continue
        cards.append(
            Card(
                int(row["index"]),
                row["name"],
                "",
                normal_bus(row["bus"]),
                int(use["total"]) << 20,
                int(use["used"]) << 20,
                leading_integer(use["busy"]),
                compute_mode=use["mode"],
                uncorrected=leading_integer(row["ecc"]) or 0,
            )
        )
    return Cards(tuple(cards), driver=driver[1] if driver else "")


def _entries(block: str) -> Iterator[tuple[str, str]]:
    """``section/section/key`` and value of an indented block."""
    path: list[tuple[int, str]] = []
    for line in block.splitlines():
        found = _LINE.match(line) if len(line) <= MAX_CHARACTERS else None
        if found is None or not line.strip():
            continue
        depth = len(found["indent"])
        while path and path[-1][0] >= depth:
            path.pop()
        path.append((depth, found["key"].strip()))
        if found["value"] is not None:
            yield "/".join(name for _, name in path), found["value"].strip()


def _card(index: int, bus: str, told: dict[str, str]) -> Card:
    errors = [value for key, value in told.items() if key.startswith("ECC Errors/Volatile/") and "Uncorrectable" in key]
    return Card(
        index,
        told.get("Product Name", ""),
        told.get("GPU UUID", ""),
        bus,
        bytes_of_mib(told.get("FB Memory Usage/Total", "")),
        bytes_of_mib(told.get("FB Memory Usage/Used", "")),
        leading_integer(told.get("Utilization/Gpu", "")),
        leading_integer(told.get("PCI/GPU Link Info/Link Width/Current", "")),
        leading_integer(told.get("PCI/GPU Link Info/Link Width/Max", "")),
        told.get("MIG Mode/Current") == "Enabled",
        told.get("Compute Mode", "Default"),
        sum(leading_integer(value) or 0 for value in errors),
    )
