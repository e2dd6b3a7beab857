"""What the planned job would talk over: interfaces, names, RDMA ports, plug-ins, and where the ranks are to meet."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from unhang.findings import Evidence
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge import numbers
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Launch

_NODE_COUNTS = ("PET_NNODES", "NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES")


@dataclass(frozen=True, slots=True)
class Address:
    """``text`` without its prefix; ``prefix``: bits of the network."""

    text: str
    prefix: int

    @property
    def family(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.text else 4

    @property
    def loopback(self) -> bool:
        """It never leaves the machine."""
        return is_loopback(self.text)

    @property
    def link_local(self) -> bool:
        """It means something on its own link only."""
        return is_link_local(self.text)


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """``kind``: ``loopback``, ``infiniband``, ``ether``, or a virtual one as the kernel calls it (``bridge``, …)."""

    index: int
    name: str
    kind: str
    running: bool
    mtu: int
    addresses: tuple[Address, ...] = ()
    """In the order in which ``getifaddrs`` gives them: IPv4 first."""
    default_route: bool = False


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Network interfaces of this node, by index."""

    all: tuple[NetworkInterface, ...]

    def named(self, name: str) -> NetworkInterface | None:
        """The interface of this name."""
        return next((one for one in self.all if one.name == name), None)

    def with_address(self, text: str) -> NetworkInterface | None:
        """The interface that has this address; any loopback address is that of the loopback interface."""
        if is_loopback(text):
            return next((one for one in self.all if one.kind == "loopback"), None)
        return next((one for one in self.all for address in one.addresses if address.text == text), None)


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """On how many nodes the job would run; None when nothing says."""

    count: int | None


@dataclass(frozen=True, slots=True)
class HostName:
    """The name of this node, and what it resolves to in the order of the resolver; nothing when it does not."""

    name: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RendezvousEndpoint:
    """Where the ranks meet (``MASTER_ADDR:MASTER_PORT``). ``here``: the address is one of this node.

    ``answer``: ``open``, ``refused``, ``silent``, or what the system says, of a node elsewhere; ``free`` or ``taken``
    here; empty when it was not asked.
    """

    address: str
    port: int
    evidence: Evidence | None = None
    addresses: tuple[str, ...] = ()
    here: bool = False
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's table. ``type``: ``IB/RoCE v1`` or ``RoCE v2``; ``interface``: the one it belongs to."""

    index: int
    text: str
    type: str = ""
    interface: str = ""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """``state``: ``ACTIVE``, ``DOWN``, ``INIT``, …; ``layer``: ``InfiniBand`` or ``Ethernet`` (RoCE); rate in Gb/s."""

    device: str
    port: int
    state: str
    physical: str
    layer: str
    rate: float | None
    vendor: str = ""
    gids: tuple[Gid, ...] = ()

    @property
    def name(self) -> str:
        """``mlx5_0:1``."""
        return f"{self.device}:{self.port}"


@dataclass(frozen=True, slots=True)
class RdmaPorts:
    """Ports of RDMA devices on this node, by name."""

    all: tuple[RdmaPort, ...]


@dataclass(frozen=True, slots=True)
class NetworkPlugins:
    """``fabrics``: names of fabrics that need a plug-in and whose devices are here; ``files``: network plug-ins found,
    by path; ``folders`` that were searched.
    """

    fabrics: tuple[str, ...]
    files: tuple[str, ...]
    folders: tuple[str, ...]

    def file_of(self, wish: str) -> str:
        """The file NCCL would load for ``NCCL_NET_PLUGIN=wish``; empty for none. A path is believed."""
        if "/" in wish:
            return wish
        names = ("libnccl-net.so",) if not wish else () if wish == "none" else (wish, f"libnccl-net-{wish}.so")
        return next((path for path in self.files if PurePosixPath(path).name in names), "")


@dataclass(frozen=True, slots=True)
class Firewall:
    """``chains``: rules of ``iptables -S`` by chain; ``policies`` of the built-in ones; ``dropping``: chains of
    nftables on the way in that drop what no rule accepts. ``listening``: ports the kernel gives to who asks for any.
    """

    chains: Mapping[str, tuple[str, ...]]
    policies: Mapping[str, str]
    dropping: tuple[str, ...] = ()
    listening: tuple[int, int] = (32768, 60999)


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that ``text`` is; None for what is none, as a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_loopback(text: str) -> bool:
    """Whether an address never leaves the machine; False for what is no address."""
    address = address_of(text)
    return address is not None and address.is_loopback


def is_link_local(text: str) -> bool:
    """``fe80::…``, ``169.254.…``: it means something on its own link only."""
    address = address_of(text)
    return address is not None and address.is_link_local


def nodes_of(here: NodeInspection) -> int | None:
    """On how many nodes the job would run; None when nothing says."""
    planned, launch = here.found(PlannedNodes), here.found(Launch) or Launch()
    if planned is None:
        settings = here.found(JobEnvironment) or JobEnvironment({})
        told = {name: setting.value for name, setting in settings.in_force.items()}
        planned = PlannedNodes(planned_node_count(launch, told))
    return launch.nodes if planned.count is None else planned.count


def planned_node_count(launch: Launch, environment: Mapping[str, str]) -> int | None:
    """How many nodes the command, else the environment, asks for; None when neither says."""
    if launch.nodes:
        return launch.nodes
    told = (launch.options.get("nnodes", "").rpartition(":")[2], *(environment.get(name, "") for name in _NODE_COUNTS))
    count = next((number for number in map(numbers.integer, told) if number is not None and number >= 0), None)
    if count is not None:
        return count
    world, local = (numbers.integer(environment.get(name, "")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if world is not None and local is not None and local > 0:
        return max(1, world // local)
    alone = launch.launcher in ("torchrun", "llamafactory") and "nnodes" not in launch.options
    return 1 if alone else None
