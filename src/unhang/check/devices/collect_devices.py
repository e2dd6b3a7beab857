"""The accelerators here: the cards, who is on them, their health, Xids since boot, and which of them the job sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unhang.check.devices.chosen_cards import named_cards
from unhang.check.devices.devices import (
    CardHealth,
    Cards,
    DeviceSelection,
    DriverFailure,
    OtherAccelerators,
    PciCard,
    PciCards,
    Xid,
    XidHistory,
)
from unhang.check.devices.nvidia_smi import leading_integer, query_cards, query_health
from unhang.check.environment.collect_environment import job_variables
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge.hardware import find_xid
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.launch import Configuration
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings.configuration_files import configuration_of
from unhang.sentences import Text, say

NAME = "devices"
LIMIT_S = 30.0
NEEDS = ("configuration", "versions")
BUS = "/sys/bus/pci/devices"
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel", "0x1da3": "habana"}
_DISPLAY, _ACCELERATOR = "0x03", "0x12"  # PCI classes: display controller, processing accelerator
_COMPUTE = ("0x0302", "0x0380", "0x12")  # no monitor outlet
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
MAX_XIDS = 1_000


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Driver, cards and libraries, each with what was found or why not."""
    pci = pci_cards(machine)
    yield PciCards, pci
    yield OtherAccelerators, _others(machine, pci.found or PciCards())
    cards, trouble = query_cards(machine)
    if cards == InspectionResult() and not (pci.found or PciCards()).of("nvidia"):
        cards = InspectionResult(Cards())  # neither a tool nor a card: there is none here
    yield DeviceSelection, InspectionResult(_choice(machine, plan, cards.found or Cards()))
    yield Cards, cards
    yield DriverFailure, InspectionResult(trouble)
    some = cards.found is not None and bool(cards.found.cards)
    yield CardHealth, query_health(machine) if some else InspectionResult()
    yield XidHistory, _xids(machine) if some else InspectionResult()


def pci_cards(machine: Machine) -> InspectionResult[PciCards]:
    """Accelerators on the PCI bus, as ``/sys`` tells; nothing where there is no ``/sys``."""
    names = machine.entries(BUS)
    if names.found is None:
        return InspectionResult(because=names.because)
    found = [card for name in names.found if (card := _pci_card(machine, name)) is not None]
    return InspectionResult(PciCards(tuple(found)))


def _pci_card(machine: Machine, name: str) -> PciCard | None:
    kind = machine.text(f"{BUS}/{name}/class")
    vendor = VENDORS.get(machine.text(f"{BUS}/{name}/vendor"))
    if vendor is None or not kind.startswith((_DISPLAY, _ACCELERATOR)):
        return None
    return PciCard(name, vendor, kind.startswith(_COMPUTE), leading_integer(machine.text(f"{BUS}/{name}/numa_node")))


def _choice(machine: Machine, plan: PlannedJob, cards: Cards) -> DeviceSelection:
    """By the environment of the job, and by what its command says of cards."""
    told, launch = job_variables(machine, plan), parse_command(plan.command)
    text = told.get("CUDA_VISIBLE_DEVICES")
    words = None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())
    rank = next((told[name] for name in _LOCAL_RANKS if told.get(name)), "")
    scheduler = next((name for name in _SCHEDULERS if told.get(name)), "")
    order = told.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    choice = DeviceSelection(words, order, leading_integer(rank), scheduler)
    files = configuration_of(machine, launch)[0] if launch.launcher == "accelerate" else Configuration()
    return named_cards(launch, files, choice, machine.node, tuple(card.index for card in cards.cards))


def _xids(machine: Machine) -> InspectionResult[XidHistory]:
    """From ``dmesg``; where users may not read it, from the journal."""
    output = result = machine.command(("dmesg",))
    if output.found is None or output.found.code:
        output = machine.command(("journalctl", "-k", "-b", "--no-pager", "-q", "-o", "short-iso", "-g", "NVRM: Xid"))
    if output.found is None or output.found.code:
        because = result.because or say("the kernel log is not readable")
        return InspectionResult(because=because, how="sudo dmesg -T | grep -i xid")
    lines = ((line, find_xid(line)) for line in output.found.text.splitlines())
    found = [Xid(told.bus, told.code, line.strip()) for line, told in lines if told is not None]
    return InspectionResult(XidHistory(tuple(found[-MAX_XIDS:])))


def _others(machine: Machine, pci: PciCards) -> InspectionResult[OtherAccelerators]:
    """What there is of AMD, Intel and Habana; only their presence is looked at."""
    found: list[str] = []
    amd = [card for card in pci.of("amd") if card.compute]
    if amd or (machine.entries("/sys/class/kfd/kfd/topology/nodes").found and _has_kfd_gpu(machine)):
        found.append("AMD")
    if [card for card in pci.of("intel") if card.compute]:
        found.append("Intel")
    if pci.of("habana"):
        found.append("Gaudi")
    if not found:
        return InspectionResult(OtherAccelerators())
    return InspectionResult(OtherAccelerators(tuple(found), tuple(_tool_answer(machine, name) for name in found)))


def _has_kfd_gpu(machine: Machine) -> bool:
    """KFD's nodes are processors and GPUs; only GPUs have SIMDs."""
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    texts = [machine.text(f"{nodes}/{name}/properties") for name in machine.entries(nodes).found or ()]
    return any(re.search(r"^simd_count [1-9]", text, re.MULTILINE) for text in texts)


def _tool_answer(machine: Machine, name: str) -> Text:
    tools = {"AMD": ("rocm-smi", "--showpids"), "Intel": ("xpu-smi", "discovery"), "Gaudi": ("hl-smi",)}
    output = machine.command(tools[name])
    if output.found is None:
        return output.because or say("{tool} is not installed", tool=tools[name][0])
    return say("{tool} fails", tool=tools[name][0]) if output.found.code else say("{tool} answers", tool=tools[name][0])
