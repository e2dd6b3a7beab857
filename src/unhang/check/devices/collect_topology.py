"""How the cards reach each other: NVLink and PCIe ways, peer access, NVSwitch, ACS, IOMMU, virtual machine.

One card alone, or none, reaches nobody: then nothing is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unhang.check.devices.collect_devices import BUS, pci_cards
from unhang.check.devices.devices import PciCards
from unhang.check.devices.nvidia_smi import nvidia_smi_command, output_text, run_commands
from unhang.check.devices.nvidia_smi_text import parse_fabric_states
from unhang.check.devices.topology import (
    AccessControl,
    CardTopology,
    Iommu,
    NvlinkFabric,
    NvLinks,
    PeerAccess,
    VirtualMachine,
)
from unhang.check.devices.topology_text import parse_nvlinks, parse_peer_access, parse_topology, redirecting_bridges
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import CommandOutput, Machine
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import Text, say

NAME = "topology"
LIMIT_S = 30.0
NEEDS = ("environment", "devices", "configuration", "limits")
_BRIDGE_CLASS = "0x0680"  # "other bridge": an NVSwitch
_LSPCI = ("lspci", "-D", "-vvv")
_NVLINK = (
    nvidia_smi_command("nvlink", "-s"),
    nvidia_smi_command("-q"),
    ("systemctl", "is-active", "nvidia-fabricmanager"),
)
_MANAGER_LOG = "/var/log/fabricmanager.log"
_MAKERS = ("QEMU", "KVM", "VMware", "Xen", "Amazon EC2", "Google", "Microsoft", "OpenStack", "Bochs", "Alibaba Cloud")


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
    yield (
        CardTopology,
        InspectionResult(ways, None if ways else _answer_text(matrix.found.text), "" if ways else "nvidia-smi topo -m"),
    )
    if ways is None or not ways.ways:
        return
    peers, bridges, *rest = run_commands(machine, nvidia_smi_command("topo", "-p2p", "r"), _LSPCI, *_NVLINK)
    states = parse_peer_access(output_text(peers))
    yield (
        PeerAccess,
        InspectionResult(states, None if states else _answer_text(""), "" if states else "nvidia-smi topo -p2p r"),
    )
    yield AccessControl, _access_control(bridges, pci)
    yield from _nvlink(machine, ways, *rest)


def _answer_text(text: str) -> Text:
    first = text.strip().split("\n")[0][:200]
    return say("nvidia-smi says: {said}", said=first) if first else say("nvidia-smi does not tell")


def _nvlink(
    machine: Machine,
    ways: CardTopology,
    links: InspectionResult[CommandOutput],
    report: InspectionResult[CommandOutput],
    service: InspectionResult[CommandOutput],
) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """The fabric where there are switches on the bus, or where cards tell of one (those of B200 do not stand there)."""
    switches, states = _switches(machine), parse_fabric_states(output_text(report))
    if not switches and not states and not any(way.startswith("NV") for way in ways.ways.values()):
        return
    found = parse_nvlinks(output_text(links))
    yield NvLinks, InspectionResult(found, None if found else _answer_text(""), "" if found else "nvidia-smi nvlink -s")
    if not switches and not states:
        return
    manager = _service(service)
    blind = not manager and not states
    because = say("neither systemd nor the cards tell whether it runs") if blind else None
    fabric = NvlinkFabric(switches, manager, states, _last_error(machine))
    yield NvlinkFabric, InspectionResult(fabric, because, "systemctl status nvidia-fabricmanager" if blind else "")


def _service(answer: InspectionResult[CommandOutput]) -> str:
    """The service's state; empty where systemd does not run or knows no such service (exit code 4)."""
    if answer.found is None or answer.found.code not in (0, 3):
        return ""
    word = answer.found.text.strip().split("\n")[0]
    return word if word in ("active", "inactive", "failed", "activating", "deactivating") else ""


def _switches(machine: Machine) -> int:
    """NVSwitches on the bus, or those the driver has."""
    names = machine.entries(BUS).found or ()
    on_bus = [
        name
        for name in names
        if (machine.read(f"{BUS}/{name}/class").found or "").startswith(_BRIDGE_CLASS)
        and (machine.read(f"{BUS}/{name}/vendor").found or "").strip() == "0x10de"
    ]
    return len(on_bus) or len(machine.entries("/proc/driver/nvidia-nvswitch/devices").found or ())


def _last_error(machine: Machine) -> str:
    lines = (machine.read(_MANAGER_LOG).found or "").splitlines()
    return next((line.strip()[:300] for line in reversed(lines) if "[ERROR]" in line or "fatal error" in line), "")


def _access_control(output: InspectionResult[CommandOutput], pci: PciCards) -> InspectionResult[AccessControl]:
    how = "sudo lspci -D -vvv | grep -e '^[0-9a-f]' -e ACSCtl"
    if output.found is None:
        return InspectionResult(because=output.because or say("there is no lspci"), how=how)
    bridges, readable = redirecting_bridges(output.found.text, [card.bus for card in pci.of("nvidia")])
    if not readable and not bridges:
        return InspectionResult(because=say("lspci may not read the bridges' settings"), how=how)
    return InspectionResult(AccessControl(bridges))


def _iommu(machine: Machine, pci: PciCards) -> InspectionResult[Iommu]:
    """The kind the kernel gives the groups of the cards; where it tells none, its command line does."""
    kinds = {(machine.read(f"{BUS}/{card.bus}/iommu_group/type").found or "").strip() for card in pci.of("nvidia")} - {
        ""
    }
    if kinds:
        translated = sorted(kind for kind in kinds if kind.startswith("DMA"))
        how = f"{BUS}/*/iommu_group/type: {', '.join(sorted(kinds))}"
        return InspectionResult(Iommu("translated" if translated else "passthrough", how))
    units = machine.entries("/sys/class/iommu")
    if units.because is not None:
        return InspectionResult(because=units.because)
    if not units.found:
        return InspectionResult(Iommu("off", "/sys/class/iommu"))
    line = machine.read("/proc/cmdline").found or ""
    through = re.search(r"\biommu(?:\.passthrough)?=(?:pt|1)\b", line)
    return InspectionResult(Iommu("passthrough" if through else "translated", "/proc/cmdline"))


def _maker(machine: Machine) -> str:
    """Who makes this virtual machine; empty for bare metal. Amazon sells both: the processor's flag decides."""
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", machine.read("/proc/cpuinfo").found or "", re.MULTILINE)
    if flags is None:
        return ""
    names = [machine.read(f"/sys/class/dmi/id/{name}").found or "" for name in ("sys_vendor", "product_name")]
    told = " ".join(name.strip() for name in names).strip()
    return next((maker for maker in _MAKERS if maker.lower() in told.lower()), told or "hypervisor")
