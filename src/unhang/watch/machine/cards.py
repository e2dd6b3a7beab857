"""What the cards did, asked of ``nvidia-smi`` in a child with a limit: a sick driver must hold up nobody.

Field names: ``nvidia-smi --help-query-gpu``; why clocks are held down is one bit field, whose bits nvml.h names
``nvmlClocksEventReason…``. One query a sample; who is on the cards and what their links carried is asked rarely.
On which card a rank sits, where the driver does not tell, is read from two names of its environment and its LOCAL_RANK.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from unhang.check.devices.chosen_cards import visible_cards
from unhang.check.devices.devices import Card, Cards, DeviceSelection
from unhang.check.devices.nvidia_smi import (
    CSV,
    MAX_CARDS,
    PROCESS_FIELDS,
    bytes_of_mib,
    leading_integer,
    normal_bus,
    nvidia_smi_command,
    output_text,
)
from unhang.host.machine import Machine
from unhang.knowledge.hardware import find_xid
from unhang.watch.machine.counters import Counters, KernelPaths, kernel_records, rate
from unhang.watch.process_state.proc_processes import read_environment

LIMIT_S = 8.0
RARELY = 6
"""Every so many samples."""
PAUSE_S = 300.0
"""After an answer that did not come, or a machine without the tool."""
THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks",
}
_FAMILIES = ("clocks_event_reasons", "clocks_throttle_reasons")  # the second until driver 535
FIELDS = (
    *("index", "uuid", "pci.bus_id", "name", "utilization.gpu", "memory.used", "memory.total", "clocks.sm"),
    *("clocks.max.sm", "clocks.mem", "temperature.gpu", "power.draw", "power.limit"),
    *("ecc.errors.uncorrected.volatile.total", "pcie.link.width.current"),
)
_BAD_FIELD = "not a valid field"
_LINK_CARD = re.compile(r"^GPU (?P<index>\d{1,4}):")
_CARD = re.compile(r"^GPU \d{1,4}: .*\(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)")
_SLICE = re.compile(r"^\s+MIG .*\(UUID: (?P<uuid>MIG-[^)\s]+)\)")
_LINK = re.compile(r"^\s*Link \d+: Data (?P<way>Tx|Rx): (?P<kib>\d{1,18}) KiB")


class CardSampler:
    """Asks again and again; ``because`` says why there is no answer."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._counters = Counters()
        self._family = 0
        self._sample = 0
        self._asked_again = 0.0
        self._rarely: dict[str, Any] = {}
        self._links_at = 0.0
        self._slices: dict[str, str] | None = None

    def sample(self, *, whole_look: bool = False) -> dict[str, Any]:
        """``cards``; ``on_cards``: who is on them; ``cards_because`` where nvidia-smi gave no answer."""
        if time.monotonic() < self._asked_again:
            return {}
        sample = self._machine.command(self._query(), LIMIT_S)
        if self._family == 0 and sample.found is not None and sample.found.code and _BAD_FIELD in sample.found.text:
            self._family = 1
            sample = self._machine.command(self._query(), LIMIT_S)
        if sample.found is None:
            self._asked_again = time.monotonic() + PAUSE_S
            return {"cards_because": str(sample.because)} if sample.because is not None else {}
        cards = [card for line in sample.found.text.splitlines() if (card := _card(line)) is not None][:MAX_CARDS]
        if sample.found.code != 0 and not cards:
            self._asked_again = time.monotonic() + PAUSE_S
            return {"cards_because": sample.found.text.strip().split("\n")[0][:200]}
        if whole_look or self._sample % RARELY == 0:
            self._sample_links()
        self._sample += 1
        moved = self._rarely.get("moved", {})
        told = [{**card, **moved.get(card["index"], {})} for card in cards]
        broken = {"cards_because": sample.found.text.strip().split("\n")[-1][:200]} if sample.found.code != 0 else {}
        return {"cards": told, "on_cards": self._rarely.get("on_cards", []), **broken}

    def owner_of_slice(self, uuid: str) -> str | None:
        """The UUID of the card this slice (MIG) is of; asked once."""
        if self._slices is None:
            self._slices = _slices(output_text(self._machine.command(nvidia_smi_command("-L"), LIMIT_S)))
        return self._slices.get(uuid)

    def _query(self) -> tuple[str, ...]:
        return nvidia_smi_command(f"--query-gpu={','.join((*FIELDS, f'{_FAMILIES[self._family]}.active'))}", CSV)

    def _sample_links(self) -> None:
        """Who is on the cards, and what went over PCIe and NVLink."""
        apps = output_text(
            self._machine.command(
                nvidia_smi_command(f"--query-compute-apps={','.join(PROCESS_FIELDS[:3])}", CSV), LIMIT_S
            )
        )
        on_cards = []
        for line in apps.splitlines()[:256]:
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) == 3 and (pid := leading_integer(cells[1])) is not None:
                on_cards.append({"uuid": cells[0], "pid": pid, "mem": bytes_of_mib(cells[2])})
        moved = _pcie(output_text(self._machine.command(nvidia_smi_command("dmon", "-s", "t", "-c", "1"), LIMIT_S)))
        for index, told in self._links().items():
            moved.setdefault(index, {}).update(told)
        self._rarely = {"on_cards": on_cards, "moved": moved}

    def _links(self) -> dict[int, dict[str, Any]]:
        now = time.monotonic()
        seconds, self._links_at = now - self._links_at, now
        found = {}
        for index, (received, sent) in _nvlink(
            output_text(self._machine.command(nvidia_smi_command("nvlink", "-gt", "d"), LIMIT_S))
        ).items():
            grown = self._counters.since(f"nvlink {index}", (received, sent))
            if grown is not None:
                found[index] = {"nvlink_rx_bps": rate(grown[0], seconds), "nvlink_tx_bps": rate(grown[1], seconds)}
        return found


def _card(line: str) -> dict[str, Any] | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(FIELDS) + 1 or not cells[0].isdecimal():
        return None
    told = dict(zip(FIELDS, cells, strict=False))
    return {
        "index": int(cells[0]),
        "uuid": told["uuid"][:64],
        "bus": normal_bus(told["pci.bus_id"])[:32],
        "name": told["name"][:64],
        "util": leading_integer(told["utilization.gpu"]),
        "mem_used": bytes_of_mib(told["memory.used"]),
        "mem_total": bytes_of_mib(told["memory.total"]),
        "sm_mhz": leading_integer(told["clocks.sm"]),
        "sm_max_mhz": leading_integer(told["clocks.max.sm"]),
        "mem_mhz": leading_integer(told["clocks.mem"]),
        "temp_c": leading_integer(told["temperature.gpu"]),
        "power_w": leading_integer(told["power.draw"]),
        "power_limit_w": leading_integer(told["power.limit"]),
        "uncorrected": leading_integer(told["ecc.errors.uncorrected.volatile.total"]),
        "lanes": leading_integer(told["pcie.link.width.current"]),
        "throttle": throttle_reasons(cells[-1]),
    }


def throttle_reasons(cell: str) -> list[str]:
    """Names of the bits that are set in ``0x0000000000000024``; none for ``[N/A]``."""
    try:
        bits = int(cell, 16)
    except ValueError:
        return []
    return [name for bit, name in THROTTLE_REASONS.items() if bits & bit]


def _slices(text: str) -> dict[str, str]:
    """Card by slice, as ``nvidia-smi -L`` lists them."""
    found: dict[str, str] = {}
    owner = ""
    for line in text.splitlines()[:10_000]:
        card, slice_ = _CARD.match(line), _SLICE.match(line)
        if card is not None:
            owner = card["uuid"]
        elif slice_ is not None and owner:
            found[slice_["uuid"]] = owner
    return found


def _pcie(text: str) -> dict[int, dict[str, Any]]:
    """Rates of ``nvidia-smi dmon -s t``: columns are named in its first line, megabytes a second."""
    names: list[str] = []
    found: dict[int, dict[str, Any]] = {}
    for line in text.splitlines()[: MAX_CARDS + 8]:
        words = line.split()
        if line.startswith("#"):
            names = names or words[1:]
            continue
        row: Mapping[str, str] = dict(zip(names, words, strict=False))
        index = leading_integer(row.get("gpu", ""))
        if index is None:
            continue
        rates = {f"pcie_{way}_bps": leading_integer(row.get(f"{way}pci", "")) for way in ("rx", "tx")}
        found[index] = {name: number * 1_000_000 for name, number in rates.items() if number is not None}
    return found


def _nvlink(text: str) -> dict[int, tuple[int, int]]:
    """(received, sent) bytes so far of each card, over all its links."""
    found: dict[int, tuple[int, int]] = {}
    index: int | None = None
    for line in text.splitlines()[:100_000]:
        card, link = _LINK_CARD.match(line), _LINK.match(line)
        if card is not None:
            index = int(card["index"])
        elif link is not None and index is not None:
            received, sent = found.get(index, (0, 0))
            size = int(link["kib"]) << 10
            found[index] = (received + size, sent) if link["way"] == "Rx" else (received, sent + size)
    return found


SliceOwner = Callable[[str], str | None]
"""UUID of a slice in, UUID of its card out."""


def device_choice(pid: int) -> DeviceSelection | None:
    """What the environment of a process says of cards; None where it may not be read."""
    told = read_environment(pid)
    if told is None:
        return None
    words = told.get("CUDA_VISIBLE_DEVICES")
    of_words = None if words is None else tuple(word.strip() for word in words.split(","))
    return DeviceSelection(of_words, told.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST"))


def card_of_rank(
    cards: Sequence[Mapping[str, Any]], choice: DeviceSelection | None, local_rank: int, owner_of_slice: SliceOwner
) -> str | None:
    """UUID of the card; None where it cannot be known.

    ``CUDA_VISIBLE_DEVICES`` ends at its first word that names nothing (``-1``), a card that stands twice hides all, a
    UUID may be cut short while it stays the only one, and of several slices (MIG) a process sees the first. ROCm has
    names of its own; nvidia-smi knows none of its cards.

    Args:
        cards: of the sample.
        choice: what the rank's process was started with.
        local_rank: negative where it is unknown.
        owner_of_slice: asked only for a slice that does not name its card.
    """
    if choice is None:
        return None
    words = choice.words or ()
    if words and words[0].startswith("MIG-"):
        return _of_slice(words[0], owner_of_slice) if len(words) == 1 or local_rank == 0 else None
    there = Cards(tuple(Card(one["index"], one["name"], one["uuid"], one["bus"]) for one in cards))
    counted = choice.words is None or any(not word.startswith("GPU-") for word in words)
    if counted and choice.order != "PCI_BUS_ID" and len({card.name for card in there.cards}) > 1:
        return None  # CUDA counts the fastest first, nvidia-smi in the order of the bus
    chosen = visible_cards(there, choice)
    if chosen.mig:
        return None
    if len(chosen.visible) == 1:
        return chosen.visible[0].uuid
    return chosen.visible[local_rank].uuid if 0 <= local_rank < len(chosen.visible) else None


def _of_slice(word: str, owner_of_slice: SliceOwner) -> str | None:
    """Until driver 470 a slice was called by its card: ``MIG-GPU-<uuid>/1/0``."""
    if word.startswith("MIG-GPU-"):
        return word.removeprefix("MIG-").partition("/")[0]
    return owner_of_slice(word)


MAX_XIDS = 16


class Xids:
    """Xids since the previous sample."""

    def __init__(self, places: KernelPaths) -> None:
        self._number = -1
        with suppress(OSError):
            self._number = os.open(places.kernel, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._number, 0, os.SEEK_END)

    def sample(self) -> dict[str, Any]:
        """``xids``: code and bus of each, and the process where the driver names one."""
        found = []
        for record in kernel_records(self._number) if self._number >= 0 else ():
            told = find_xid(record)
            if told is not None:
                of = {"pid": told.pid} if told.pid is not None else {}
                found.append({"bus": told.bus, "code": told.code, **of})
        return {"xids": found[-MAX_XIDS:]} if found else {}
