"""Where a probe process stands: its node, and the network interface that leads to the others."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from unhang.check.network.collect_network import interfaces_of
from unhang.check.network.network import NetworkInterface
from unhang.host.machine import Machine
from unhang.knowledge.hardware import node_local_interface

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
    """Interface by network (``10.1.0.0/16``), of those that have an IPv4 address and lead to other machines; those that
    lead nowhere else only where no other is in the network."""
    usable = [one for one in _interfaces() if one.kind != "loopback"]
    found: dict[str, str] = {}
    for one in sorted(usable, key=lambda one: bool(node_local_interface(one.name))):
        for address in one.addresses:
            if address.family == 4:
                network = ip_network(f"{address.text}/{address.prefix}", strict=False)
                found.setdefault(str(network), one.name)
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
    return next((one.name for one in _interfaces() if own in (address.text for address in one.addresses)), "")


def _interfaces() -> tuple[NetworkInterface, ...]:
    seen = interfaces_of(Machine()).found
    return () if seen is None else seen.all


def _space() -> str:
    try:
        return str(os.stat("/proc/self/ns/net").st_ino)  # noqa: PTH116 - a link that leads to no path
    except OSError:
        return ""
