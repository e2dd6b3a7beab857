"""How the cards reach each other: NVLink and PCIe ways, peer access, NVSwitch, ACS, IOMMU, virtual machine.

One card alone, or none, reaches nobody: then nothing is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from unhang.check.devices.collect_devices import BUS, pci_cards
from unhang.check.devices.devices import (
    AccessControl,
    CardTopology,
    Iommu,
    NvlinkFabric,
    NvLinks,
    Pair,
    PciCards,
    PeerAccess,
    VirtualMachine,
)
from unhang.check.devices.nvidia_smi import FABRIC_QUERY, fabric_states, nvidia_smi_command, output_text, run_commands
from unhang.host.inspection_result import Found, InspectionResult
from unhang.host.machine import CommandOutput, Machine
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import say

NAME = "topology"
LIMIT_S = 30.0
NEEDS = ("environment", "devices", "configuration", "limits")
_BRIDGE_CLASS = "0x0680"  # "other bridge": an NVSwitch
_LSPCI = ("lspci", "-D", "-vvv")
_NVLINK = (nvidia_smi_command("nvlink", "-s"), FABRIC_QUERY, ("systemctl", "is-active", "nvidia-fabricmanager"))
_MANAGER_LOG = "/var/log/fabricmanager.log"
_MAKERS = ("QEMU", "KVM", "VMware", "Xen", "Amazon EC2", "Google", "Microsoft", "OpenStack", "Bochs", "Alibaba Cloud")
MAX_CHARACTERS = 1_000
"""Characters read of a line of lspci."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NAME = re.compile(r"GPU(\d{1,6})")
_WAY = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d{1,4}|OK|C?NS|GNS|TNS|U|SOC")
_GPU = re.compile(r"^GPU (\d{1,6}):")
_LINK = re.compile(r"^\s+Link \d+: (.+)$")
_BELOW = re.compile(r"Bus: primary=[0-9a-f]+, secondary=(?P<first>[0-9a-f]+), subordinate=(?P<last>[0-9a-f]+)")
_DEVICE = re.compile(r"^(?P<bus>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<rest>.*)$")


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:  # noqa: ARG001 - every check takes both
    """How cards, processors and NICs are connected; after a nvidia-smi that does not answer it is not asked again."""
    for kind in (CardTopology, PeerAccess, NvLinks, NvlinkFabric, AccessControl):
        yield kind, InspectionResult()
    pci = pci_cards(machine).found or PciCards()
    matrix = machine.command(nvidia_smi_command("topo", "-m"))
    if matrix.found is None and matrix.because is None and not pci.of("nvidia"):
        return
    yield VirtualMachine, InspectionResult(VirtualMachine(_maker(machine)))
    yield Iommu, _iommu(machine, pci)
    if matrix.found is None:
        yield CardTopology, InspectionResult(because=matrix.because, how=matrix.how)
        return
    ways = parse_topology(matrix.found.text) if matrix.found.code == 0 else None
    yield CardTopology, _told(ways, "nvidia-smi topo -m", matrix.found.text)
    if ways is None or not ways.ways:
        return
    peers, bridges, *rest = run_commands(machine, nvidia_smi_command("topo", "-p2p", "r"), _LSPCI, *_NVLINK)
    yield PeerAccess, _told(parse_peer_access(output_text(peers)), "nvidia-smi topo -p2p r")
    yield AccessControl, _access_control(bridges, pci)
    yield from _nvlink(machine, ways, *rest)


def _told(found: Found | None, how: str, said: str = "") -> InspectionResult[Found]:
    """What nvidia-smi told; else what it said instead."""
    if found is not None:
        return InspectionResult(found)
    first = said.strip().split("\n")[0][:200]
    because = say("nvidia-smi says: {said}", said=first) if first else say("nvidia-smi does not show it")
    return InspectionResult(because=because, how=how)


def _nvlink(
    machine: Machine,
    ways: CardTopology,
    links: InspectionResult[CommandOutput],
    fabric: InspectionResult[CommandOutput],
    service: InspectionResult[CommandOutput],
) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """The fabric where there are switches on the bus, or where cards tell of one (those of B200 do not stand there)."""
    switches, states = _switches(machine), fabric_states(output_text(fabric))
    if not switches and not states and not any(way.startswith("NV") for way in ways.ways.values()):
        return
    yield NvLinks, _told(parse_nvlinks(output_text(links)), "nvidia-smi nvlink -s")
    if not switches and not states:
        return
    manager = _service(service)
    blind = not manager and not states
    because = say("neither systemd nor the GPUs show whether it is running") if blind else None
    found = NvlinkFabric(manager, states, _last_error(machine))
    yield NvlinkFabric, InspectionResult(found, because, "systemctl status nvidia-fabricmanager" if blind else "")


def _service(answer: InspectionResult[CommandOutput]) -> str:
    """The service's state; empty where systemd does not run or knows no such service (exit code 4)."""
    if answer.found is None or answer.found.code not in (0, 3):
        return ""
    word = answer.found.text.strip().split("\n")[0]
    return word if word in ("active", "inactive", "failed", "activating", "deactivating") else ""


def _switches(machine: Machine) -> int:
    """NVSwitches on the bus, or those the driver has."""
    names = machine.entries(BUS).found or ()
    bridges = [name for name in names if machine.text(f"{BUS}/{name}/class").startswith(_BRIDGE_CLASS)]
    on_bus = [name for name in bridges if machine.text(f"{BUS}/{name}/vendor") == "0x10de"]
    return len(on_bus) or len(machine.entries("/proc/driver/nvidia-nvswitch/devices").found or ())


def _last_error(machine: Machine) -> str:
    lines = machine.text(_MANAGER_LOG).splitlines()
    return next((line.strip()[:300] for line in reversed(lines) if "[ERROR]" in line or "fatal error" in line), "")


def _access_control(output: InspectionResult[CommandOutput], pci: PciCards) -> InspectionResult[AccessControl]:
    how = "sudo lspci -D -vvv | grep -e '^[0-9a-f]' -e ACSCtl"
    if output.found is None:
        return InspectionResult(because=output.because or say("lspci is not installed"), how=how)
    bridges, readable = redirecting_bridges(output.found.text, [card.bus for card in pci.of("nvidia")])
    if not readable and not bridges:
        return InspectionResult(because=say("lspci has no permission to read the bridge settings"), how=how)
    return InspectionResult(AccessControl(bridges))


def _iommu(machine: Machine, pci: PciCards) -> InspectionResult[Iommu]:
    """The kind the kernel gives the groups of the cards; where it tells none, its command line does."""
    kinds = {machine.text(f"{BUS}/{card.bus}/iommu_group/type") for card in pci.of("nvidia")} - {""}
    if kinds:
        translated = sorted(kind for kind in kinds if kind.startswith("DMA"))
        how = f"{BUS}/*/iommu_group/type: {', '.join(sorted(kinds))}"
        return InspectionResult(Iommu("translated" if translated else "passthrough", how))
    units = machine.entries("/sys/class/iommu")
    if units.because is not None:
        return InspectionResult(because=units.because)
    if not units.found:
        return InspectionResult(Iommu("off", "/sys/class/iommu"))
    line = machine.text("/proc/cmdline")
    through = re.search(r"\biommu(?:\.passthrough)?=(?:pt|1)\b", line)
    return InspectionResult(Iommu("passthrough" if through else "translated", "/proc/cmdline"))


def _maker(machine: Machine) -> str:
    """Who makes this virtual machine; empty for bare metal. Amazon sells both: the processor's flag decides."""
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", machine.text("/proc/cpuinfo"), re.MULTILINE)
    if flags is None:
        return ""
    told = " ".join(machine.text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")).strip()
    return next((maker for maker in _MAKERS if maker.lower() in told.lower()), told or "hypervisor")


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
