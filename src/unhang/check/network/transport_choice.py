"""What NCCL and Gloo would take: interfaces, RDMA ports, and entries of a RoCE port's GID table.

Their own rules are replayed: ``knowledge/interface_order.toml`` for interfaces, ``ncclIbGetGidIndex`` (NCCL v2.30.7-1
net_ib/connect.cc) for entries. By itself NCCL prefers IPv4, then RoCE v2, and passes over empty and link-local ones;
``NCCL_IB_GID_INDEX`` is taken as it is. Before 2.21 the index was 0 unless it was set.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from unhang.check.environment.environment import Versions
from unhang.check.network.network import (
    Address,
    Gid,
    HostName,
    Interfaces,
    NetworkInterface,
    RdmaPort,
    address_of,
    is_link_local,
)
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware import interface_order
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say

_FAMILIES = {"AF_INET": 4, "AF_INET6": 6}


@dataclass(frozen=True, slots=True)
class InterfaceChoice:
    """``interfaces`` in the order in which they are used; empty when there is none. ``address`` of the first."""

    interfaces: tuple[NetworkInterface, ...]
    address: Address | None
    why: Text
    variable: str = ""
    """The one that made the choice; empty when the library chose by itself."""


def nccl_choice(interfaces: Interfaces, settings: JobEnvironment, nccl: str | None) -> InterfaceChoice:
    """NCCL's choice for its first contact and for TCP sockets."""
    order = interface_order(nccl)
    family = _FAMILIES.get(settings.value("NCCL_SOCKET_FAMILY") or "")
    usable = [one for one in _by_address(interfaces) if one.running or not order.running]
    spec = settings.value("NCCL_SOCKET_IFNAME") or ""
    if len(spec) > 1:
        found = _matching(spec, usable, family)
        why = say("NCCL_SOCKET_IFNAME={value} selects it", value=spec)
        return InterfaceChoice(found, _address(found, family), why, "NCCL_SOCKET_IFNAME")
    for number, step in enumerate(order.steps):
        found = _matching(step, usable, family)
        if found:
            return InterfaceChoice(found, _address(found, family), _reason(step, number))
    return InterfaceChoice((), None, say("no interface has an address"))


def gloo_choice(interfaces: Interfaces, settings: JobEnvironment, host: HostName | None) -> InterfaceChoice:
    """Gloo's choice, as torch makes it: exact names, else where the name of the node leads, else loopback."""
    spec = settings.value("GLOO_SOCKET_IFNAME") or ""
    if spec:
        names = [name for name in spec.split(",") if name]
        found = tuple(one for name in names if (one := interfaces.named(name)) is not None and one.addresses)
        why = say("GLOO_SOCKET_IFNAME={value} selects it", value=spec)
        return InterfaceChoice(
            found if len(found) == len(names) else (), _address(found, None), why, "GLOO_SOCKET_IFNAME"
        )
    for text in host.addresses if host is not None else ():
        one = interfaces.with_address(text)
        if one is not None and host is not None:
            why = say("the hostname {name} resolves to {address}", name=host.name, address=text)
            return InterfaceChoice((one,), Address(text, 0), why)
    loopback = tuple(one for one in interfaces.all if one.kind == "loopback")
    why = say("the hostname does not resolve to an address of this node, so torch falls back to 127.0.0.1")
    return InterfaceChoice(loopback[:1], Address("127.0.0.1", 8), why)


def interface_matches(spec: str, name: str) -> bool:
    """Whether a list of NCCL's (``eth,ib``, ``^docker``, ``=eth0``, ``^=eth0``) takes ``name``."""
    excluded = spec.startswith("^")
    spec = spec[excluded:]
    exact = spec.startswith("=")
    words = [word.partition(":")[0] for word in spec[exact:].split(",") if word]
    found = any(name == word if exact else name.startswith(word) for word in words) or not words
    return found is not excluded


def _matching(spec: str, interfaces: Sequence[NetworkInterface], family: int | None) -> tuple[NetworkInterface, ...]:
    return tuple(
        one for one in interfaces if _address((one,), family) is not None and interface_matches(spec, one.name)
    )


def _by_address(interfaces: Interfaces) -> list[NetworkInterface]:
    """Those with IPv4 first, as ``getifaddrs`` lists addresses."""
    return sorted(interfaces.all, key=lambda one: (all(a.family == 6 for a in one.addresses), one.index))


def _address(found: Sequence[NetworkInterface], family: int | None) -> Address | None:
    """The address NCCL would take of the first; an IPv6 loopback is none."""
    for one in found[:1]:
        for address in one.addresses:
            if family in (None, address.family) and not (address.family == 6 and address.loopback):
                return address
    return None


def _reason(step: str, number: int) -> Text:
    if step.startswith("^"):
        names = ", ".join(step[1:].split(","))
        return say("it is the first whose name does not start with {names}", names=names)
    if number == 0:
        return say("names that start with {prefix} come first", prefix=step)
    return say("only {prefix} is left", prefix=step)


def used_ports(ports: Sequence[RdmaPort], settings: JobEnvironment) -> list[RdmaPort]:
    """Those ``NCCL_IB_HCA`` leaves; ``mlx5_1:2`` names a port."""
    spec = settings.value("NCCL_IB_HCA") or ""
    words = [word for word in spec.lstrip("^=").split(",") if ":" in word]
    wanted = {word.partition(":")[0]: word.split(":")[1] for word in words} if not spec.startswith("^") else {}
    return [
        port
        for port in ports
        if not spec
        or (interface_matches(spec, port.device) and wanted.get(port.device, str(port.port)) == str(port.port))
    ]


def forced_index(settings: JobEnvironment) -> int | None:
    """``NCCL_IB_GID_INDEX``; None where NCCL chooses."""
    try:
        index = int((settings.value("NCCL_IB_GID_INDEX") or "-1").strip())
    except ValueError:
        return None
    return index if index >= 0 else None


def gid_at(port: RdmaPort, index: int) -> Gid | None:
    """The entry at ``index``; None where it is empty."""
    return next((gid for gid in port.gids if gid.index == index), None)


def gid_in_force(here: NodeInspection, port: RdmaPort) -> Gid | None:
    """The entry NCCL would use; before 2.21 it was the first unless the user named one."""
    settings, versions = here.found(JobEnvironment) or JobEnvironment({}), here.found(Versions) or Versions({})
    if forced_index(settings) is None and versions.at_least("nccl", (2, 21)) is False:
        return gid_at(port, 0)
    return chosen_gid(port, settings)


def chosen_gid(port: RdmaPort, settings: JobEnvironment) -> Gid | None:
    """The entry in force; None where there is none that could be used."""
    index = forced_index(settings)
    if index is not None:
        return gid_at(port, index)
    family = _FAMILIES.get(settings.value("NCCL_IB_ADDR_FAMILY") or "", 4)
    version = settings.value("NCCL_IB_ROCE_VERSION_NUM") or "2"
    usable = [gid for gid in port.gids if not is_link_local(gid.text)]
    best = sorted(usable, key=lambda gid: (family_of(gid) != family, f"v{version}" not in gid.type, gid.index))
    return best[0] if best else gid_at(port, 0)


def family_of(gid: Gid) -> int:
    """4 for an IPv4 address written as IPv6."""
    address = address_of(gid.text)
    return 4 if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None else 6
