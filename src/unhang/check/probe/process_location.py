"""Where a probe process stands: its node, and the network interface that leads to the others."""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import struct
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B
NET = Path("/sys/class/net")
MEGABIT = 1e6 / 8


@dataclass(frozen=True, slots=True)
class ProcessLocation:
    """``node``: the host's name. ``space``: tells containers apart that share one name. ``link``: bytes a second."""

    node: str
    space: str
    interface: str = ""
    link: float | None = None


def locate_process(address: str) -> ProcessLocation:
    """This process, seen from the way to ``address``."""
    interface = _towards(address)
    return ProcessLocation(platform.node(), _space(), interface, nominal_bandwidth(interface))


def nominal_bandwidth(interface: str, *, net: Path = NET) -> float | None:
    """What the driver says the link runs at, bytes a second; None where it does not say (loopback, most virtual)."""
    try:
        speed = int((net / interface / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * MEGABIT if interface and speed > 0 else None


def interfaces_by_network() -> dict[str, str]:
    """Interface by network (``10.1.0.0/16``), of those that are up, have an IPv4 address and lead to other machines."""
    named = [name for _, name in socket.if_nameindex() if name != "lo" and _address_of(name)]
    named.sort(key=lambda name: name.startswith(("docker", "br-", "virbr", "cni")))
    found: dict[str, str] = {}
    for name in named:
        mask = _asked(name, _SIOCGIFNETMASK) or "255.255.255.255"
        found.setdefault(str(ip_network(f"{_address_of(name)}/{mask}", strict=False)), name)
    return found


def node_names(places: list[ProcessLocation]) -> tuple[str, ...]:
    """A name for each, unlike for unlike places: ``h1``, ``h1 (2)`` where two containers share the host's name."""
    names: dict[tuple[str, str], str] = {}
    for place in places:
        key = (place.node, place.space)
        if key not in names:
            same = sum(node == place.node for node, _ in names)
            names[key] = place.node if not same else f"{place.node} ({same + 1})"
    return tuple(names[place.node, place.space] for place in places)


def _towards(address: str) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # a datagram socket that connects sends nothing
            own = probe.getsockname()[0]
    except OSError:
        return ""
    return next((name for _, name in socket.if_nameindex() if _address_of(name) == own), "")


def _address_of(interface: str) -> str:
    return _asked(interface, _SIOCGIFADDR)


def _asked(interface: str, question: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            packed = fcntl.ioctl(probe.fileno(), question, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(packed[20:24])


def _space() -> str:
    try:
        return str(os.stat("/proc/self/ns/net").st_ino)  # noqa: PTH116 - a link that leads to no path
    except OSError:
        return ""
