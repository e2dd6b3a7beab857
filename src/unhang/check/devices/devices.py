"""The accelerators of one node: what they are, who uses them, how they are, and which of them the job would see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.sentences import Text, say


@dataclass(frozen=True, slots=True)
class Card:
    """One NVIDIA card. ``index`` is nvidia-smi's (order of the PCI bus); ``bus`` as ``/sys`` spells it
    (``0000:3b:00.0``); memory in bytes; what the card does not tell is None.
    """

    index: int
    name: str
    uuid: str = ""
    bus: str = ""
    memory: int = 0
    used: int = 0
    busy: int | None = None
    """Percent of time a kernel ran."""
    width: int | None = None
    width_max: int | None = None
    """PCIe lanes in use, and the most this card can have in this slot."""
    mig: bool = False
    compute_mode: str = "Default"
    uncorrected: int = 0
    """Memory errors that could not be corrected since the driver was loaded."""


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process that computes on a card; ``used`` bytes of its memory, 0 when that is not known."""

    uuid: str
    pid: int
    name: str
    used: int = 0


@dataclass(frozen=True, slots=True)
class Cards:
    """NVIDIA cards by index; ``driver`` their driver's version. No card at all is an answer as well."""

    cards: tuple[Card, ...] = ()
    processes: tuple[CardProcess, ...] = ()
    driver: str = ""

    def of_uuid(self, uuid: str) -> Card | None:
        """The card with this UUID, or with the only UUID that begins so."""
        found = [card for card in self.cards if uuid and card.uuid.startswith(uuid)]
        return found[0] if len(found) == 1 else None

    def on(self, card: Card) -> tuple[CardProcess, ...]:
        """The processes on ``card``."""
        return tuple(process for process in self.processes if process.uuid == card.uuid)


@dataclass(frozen=True, slots=True)
class CardHealth:
    """What cards tell of their state, by UUID. ``slowed``: hardware reasons for lower clocks (``hw_thermal_slowdown``);
    ``remapping``: ``pending`` (a reset is due) or ``failure`` (no spare memory rows are left).
    """

    slowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remapping: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverFailure:
    """What nvidia-smi says instead of an answer. ``kind``: ``mismatch`` (library and kernel module differ),
    ``not-loaded``, ``lost`` (a card fell off the bus), ``refused`` (no permission), ``no-cards``.
    """

    kind: str
    said: str


@dataclass(frozen=True, slots=True)
class PciCard:
    """An accelerator on the PCI bus. ``vendor``: ``nvidia``, ``amd``, ``intel``, ``habana``; ``compute``: it has no
    monitor outlet, so that it is there to compute."""

    bus: str
    vendor: str
    compute: bool
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class PciCards:
    """Accelerators on the bus, whatever their drivers say."""

    cards: tuple[PciCard, ...] = ()

    def of(self, vendor: str) -> tuple[PciCard, ...]:
        """Those of one vendor."""
        return tuple(card for card in self.cards if card.vendor == vendor)


@dataclass(frozen=True, slots=True)
class Xid:
    """A complaint of the driver in the kernel log about the card at ``bus`` (``0000:3b:00``)."""

    bus: str
    code: int
    line: str


@dataclass(frozen=True, slots=True)
class XidHistory:
    """Every Xid since boot that the kernel log still holds."""

    xids: tuple[Xid, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """What the environment says of devices: ``words`` of CUDA_VISIBLE_DEVICES (None: not set, every card is seen);
    ``order``: CUDA_DEVICE_ORDER; ``local_rank``: this process's number on its node, where a launcher set one;
    ``scheduler``: the variable of a scheduler that gave out the cards; ``option``: how the command names them, with
    ``{cards}`` in their place, where not by the variable.
    """

    words: tuple[str, ...] | None = None
    order: str = "FASTEST_FIRST"
    local_rank: int | None = None
    scheduler: str = ""
    option: str = ""


@dataclass(frozen=True, slots=True)
class NvidiaDriver:
    """The NVIDIA driver. ``module``: version of the kernel module; ``compat``: folder of a CUDA compatibility
    library that is found before the driver's own."""

    module: str
    compat: str = ""


@dataclass(frozen=True, slots=True)
class TorchCudaBuild:
    """The CUDA version torch was built for (``12.8``; empty for a build without CUDA), and how it is known."""

    cuda: str
    how: str


@dataclass(frozen=True, slots=True)
class CudaCompiler:
    """The nvcc that torch would compile extensions with, and the CUDA it is of (``9.1``)."""

    path: str
    cuda: str


@dataclass(frozen=True, slots=True)
class NcclLibrary:
    """A libnccl.so. ``where``: ``wheel``, ``LD_PRELOAD``, ``LD_LIBRARY_PATH`` or ``ldconfig``; ``version`` as far as
    the file's name tells it."""

    path: str
    where: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class NcclLibraries:
    """Every NCCL a process here may load."""

    libraries: tuple[NcclLibrary, ...] = ()

    def of(self, *where: str) -> tuple[NcclLibrary, ...]:
        """Those found in these places."""
        return tuple(library for library in self.libraries if library.where in where)


@dataclass(frozen=True, slots=True)
class OtherAccelerators:
    """Accelerators that are not NVIDIA's: ``found`` names them, ``said`` is their tool's answer."""

    found: tuple[str, ...] = ()
    said: tuple[Text, ...] = ()


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
    """What joins the cards through NVSwitches. ``manager``: what systemd says of the fabric manager, empty when that is
    not known; ``states``: the card's state and status in the fabric by bus (``Completed``, ``Success``); absent before
    Hopper.
    """

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
