"""Where a probe process stands: its node, and the network interface that leads to the others."""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SIOCGIFADDR = 0x8915
NET = Path("/sys/class/net")
MEGABIT = 1e6 / 8


@dataclass(frozen=True, slots=True)
class Here:
    """``node``: the host's name. ``space``: tells containers apart that share one name. ``link``: bytes a second."""

    node: str
    space: str
    interface: str = ""
    link: float | None = None


def here(address: str) -> Here:
    """This process, seen from the way to ``address``."""
    interface = _towards(address)
    return Here(platform.node(), _space(), interface, nominal(interface))


def nominal(interface: str, *, net: Path = NET) -> float | None:
    """What the driver says the link runs at, bytes a second; None where it does not say (loopback, most virtual)."""
    try:
        speed = int((net / interface / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * MEGABIT if interface and speed > 0 else None


def interfaces() -> Iterator[str]:
    """Interfaces of this machine that are up and have an IPv4 address, those that lead to others first."""
    named = [name for _, name in socket.if_nameindex() if _address_of(name)]
    return iter(sorted(named, key=lambda name: (name == "lo", name.startswith(("docker", "br-", "virbr", "cni")))))


def node_names(places: list[Here]) -> tuple[str, ...]:
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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            packed = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(packed[20:24])


def _space() -> str:
    try:
        return str(os.stat("/proc/self/ns/net").st_ino)  # noqa: PTH116 - a link that leads to no path
    except OSError:
        return ""
