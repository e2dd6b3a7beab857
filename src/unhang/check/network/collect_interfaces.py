"""The interfaces of this node with their addresses.

``ip -j -d addr`` tells all of it in one answer; where there is no ``ip`` (small containers), the files of the kernel
do, without second IPv4 addresses: ``/sys/class/net``, ``/proc/net/if_inet6``, ``/proc/net/route``,
``/proc/net/fib_trie``.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Any

from unhang.check.network.network import Address, Interfaces, NetworkInterface
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.sentences import say

_UP = 0x1
_HEX = re.compile(r"0x[0-9a-fA-F]{1,8}")
_KINDS = {"772": "loopback", "32": "infiniband", "1": "ether"}
_LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


def interfaces_of(machine: Machine) -> InspectionResult[Interfaces]:
    """Every interface, by index."""
    default = {fields[0] for fields in _routes(machine) if fields[1] == fields[7] == "00000000"}
    found = _from_ip(machine, default) or tuple(_from_files(machine, default))
    if not found:
        return InspectionResult(because=say("neither ip nor /sys/class/net tells the interfaces"), how="ip addr")
    return InspectionResult(Interfaces(tuple(sorted(found, key=lambda one: one.index))))


def _routes(machine: Machine) -> list[list[str]]:
    lines = machine.text("/proc/net/route").splitlines()[1:]
    return [fields for line in lines if len(fields := line.split()) >= 8]


def _from_ip(machine: Machine, default: set[str]) -> tuple[NetworkInterface, ...]:
    output = machine.command(["ip", "-j", "-d", "addr"]).found
    if output is None or output.code:
        return ()
    try:
        rows = json.loads(output.text)
        return tuple(_row(row, default) for row in rows if row.get("ifname"))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return ()


def _row(row: dict[str, Any], default: set[str]) -> NetworkInterface:
    flags, name = row.get("flags", ()), str(row["ifname"])
    kind = "loopback" if "LOOPBACK" in flags else row.get("linkinfo", {}).get("info_kind") or row.get("link_type", "")
    addresses = [
        Address(str(ipaddress.ip_address(one["local"])), int(one["prefixlen"]))
        for one in row.get("addr_info", ())
        if one.get("family") in ("inet", "inet6") and "local" in one
    ]
    up = "UP" in flags
    running = up and row.get("operstate", "UNKNOWN") in ("UP", "UNKNOWN")
    ordered = tuple(sorted(addresses, key=lambda one: one.family))
    return NetworkInterface(
        int(row["ifindex"]), name, str(kind), up, running, int(row.get("mtu", 0)), ordered, name in default
    )


def _from_files(machine: Machine, default: set[str]) -> Iterator[NetworkInterface]:
    addresses = _addresses(machine)
    for name in machine.entries("/sys/class/net").found or ():
        index, flags = _file(machine, name, "ifindex"), _file(machine, name, "flags")
        place = numbers.integer(index)
        if place is None:
            continue
        up = bool(int(flags, 16) & _UP) if _HEX.fullmatch(flags) else False
        running = up and _file(machine, name, "operstate") in ("up", "unknown")
        kind = "bridge" if machine.entries(f"/sys/class/net/{name}/bridge").found is not None else ""
        kind = kind or _KINDS.get(_file(machine, name, "type"), "")
        mtu = _file(machine, name, "mtu")
        size = numbers.integer(mtu) or 0
        yield NetworkInterface(place, name, kind, up, running, size, tuple(addresses.get(name, ())), name in default)


def _file(machine: Machine, name: str, what: str) -> str:
    return machine.text(f"/sys/class/net/{name}/{what}")


def _addresses(machine: Machine) -> dict[str, list[Address]]:
    found: dict[str, list[Address]] = {}
    with contextlib.suppress(ValueError):  # torn; what was read so far is used
        _read_addresses(machine, found)
    return found


def _read_addresses(machine: Machine, found: dict[str, list[Address]]) -> None:
    nets = [
        (ipaddress.ip_network(f"{_dotted(f[1])}/{_dotted(f[7])}"), f[0]) for f in _routes(machine) if f[2] == "0" * 8
    ]
    for text in dict.fromkeys(_LOCAL.findall(machine.text("/proc/net/fib_trie"))):
        address = ipaddress.ip_address(text)
        nearest = max((one for one in nets if address in one[0]), key=lambda one: one[0].prefixlen, default=None)
        if address.is_loopback:
            found.setdefault("lo", []).append(Address(text, 8))
        elif nearest is not None:
            found.setdefault(nearest[1], []).append(Address(text, nearest[0].prefixlen))
    for line in machine.text("/proc/net/if_inet6").splitlines():
        fields = line.split()
        if len(fields) == 6:
            text = str(ipaddress.IPv6Address(bytes.fromhex(fields[0])))
            found.setdefault(fields[5], []).append(Address(text, int(fields[2], 16)))


def _dotted(word: str) -> str:
    """``0002000A`` as ``/proc/net/route`` writes it (the machine's byte order; all that run CUDA are little endian)."""
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(word)))
