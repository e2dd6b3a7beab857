"""How the cards of one node reach each other: NVLink, PCIe, NUMA nodes, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.sentences import say

Pair = tuple[int, int]
DISTANCES = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Ways between two cards as nvidia-smi names them, nearest first; NV is NVLink."""
BETWEEN = (
    say("NVLink"),
    say("one PCIe switch"),
    say("several PCIe switches"),
    say("the processor's PCIe host bridge"),
    say("several host bridges of one processor"),
    say("the link between processors"),
)
"""What lies between, in words."""


@dataclass(frozen=True, slots=True)
class CardTopology:
    """The matrix of ``nvidia-smi topo -m`` by card indices (``NV18``, ``PIX``, … ``SYS``); each card's NUMA node."""

    ways: Mapping[Pair, str] = field(default_factory=dict)
    numa: Mapping[int, int] = field(default_factory=dict)
    told: bool = True
    """By nvidia-smi; else only the NUMA nodes are known, from the bus."""

    def distance(self, one: int, other: int) -> int | None:
        """0 for NVLink, 5 for a way between processors; None when it is not known."""
        way = self.ways.get((one, other), "")
        name = "NV" if way.startswith("NV") else way
        return DISTANCES.index(name) if name in DISTANCES else None

    def linked(self, cards: tuple[int, ...]) -> bool:
        """Whether NVLink joins every two of ``cards``."""
        return all(self.distance(one, other) == 0 for one in cards for other in cards if one != other)


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """``nvidia-smi topo -p2p r``: whether a card may read another's memory (``OK``, ``NS``, ``CNS``, ``GNS``, …)."""

    states: Mapping[Pair, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NvLinks:
    """NVLinks by card index: (up, down)."""

    links: Mapping[int, Pair] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NvlinkFabric:
    """NVSwitches of this machine. ``manager``: what systemd says of the fabric manager, empty when that is not known;
    ``states``: the card's state and status in the fabric by bus (``Completed``, ``Success``); absent before Hopper.
    """

    switches: int
    manager: str = ""
    states: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    log: str = ""
    """The last line of the fabric manager's log that tells of an error."""


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Bridges (``0000:16:00.0``) whose Access Control Services send what cards exchange up to the processor."""

    bridges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Iommu:
    """``translated`` (every address of a card is looked up), ``passthrough``, or ``off``; ``how`` it is known."""

    state: str
    how: str


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """The maker of the virtual machine we are in; empty where this is none."""

    maker: str = ""
