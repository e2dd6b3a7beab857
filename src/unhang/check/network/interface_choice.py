"""Which interface NCCL and Gloo would take, and why: their own rules (``knowledge/interface_order.toml``), replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unhang.check.network.network import Address, HostName, Interfaces, NetworkInterface
from unhang.knowledge.hardware.interface_order import interface_order
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
        why = say("NCCL_SOCKET_IFNAME={value} asks for it", value=spec)
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
        why = say("GLOO_SOCKET_IFNAME={value} asks for it", value=spec)
        return InterfaceChoice(
            found if len(found) == len(names) else (), _address(found, None), why, "GLOO_SOCKET_IFNAME"
        )
    for text in host.addresses if host is not None else ():
        one = interfaces.with_address(text)
        if one is not None and host is not None:
            why = say("the node's name {name} resolves to {address}", name=host.name, address=text)
            return InterfaceChoice((one,), Address(text, 0), why)
    loopback = tuple(one for one in interfaces.all if one.kind == "loopback")
    why = say("the node's name does not resolve to an address of this node, and torch falls back to 127.0.0.1")
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
        return say("it is the first one that is not called {names}…", names=names)
    if number == 0:
        return say("names that begin with {prefix} come first", prefix=step)
    return say("nothing but {prefix} is left", prefix=step)
