"""What the job would talk over: interfaces, the node's name, RDMA ports, plug-ins, firewall, and the meeting point."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Any

from unhang.check.environment.collect_environment import job_variables
from unhang.check.network.network import (
    Address,
    Firewall,
    Gid,
    HostName,
    Interfaces,
    NetworkInterface,
    NetworkPlugins,
    PlannedNodes,
    RdmaPort,
    RdmaPorts,
    RendezvousEndpoint,
    address_of,
    planned_node_count,
)
from unhang.check.network.rendezvous_endpoint import find_rendezvous_endpoint, resolve_host
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.knowledge.hardware import plugin_fabrics
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings.configuration_files import configuration_of
from unhang.sentences import say

NAME = "network"
LIMIT_S = 20.0
NEEDS = ("environment", "versions", "configuration")
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
)
_CHAIN, _RULE = re.compile(r"-P (\S+) (\S+)"), re.compile(r"-A (\S+) .*")
_DROPPING = re.compile(r"chain (\S+) \{\s*type filter hook input [^}]*?policy drop")
ROOT = "/sys/class/infiniband"
MAX_GIDS = 32
_EMPTY = re.compile(r"[0:]+|fe80:[0:]+")
_UP = 0x1
_HEX = re.compile(r"0x[0-9a-fA-F]{1,8}")
_KINDS = {"772": "loopback", "32": "infiniband", "1": "ether"}
_LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Look at each; what the job is not going to use is looked at all the same, except the firewall on one node."""
    launch = parse_command(plan.command)
    configuration, _ = configuration_of(machine, launch)
    environment = job_variables(machine, plan)
    interfaces = interfaces_of(machine)
    yield Interfaces, interfaces
    own = resolve_host(machine, machine.node)
    name = None if own.found is None else HostName(machine.node, own.found)
    yield HostName, InspectionResult(name, own.because, own.how)
    yield RdmaPorts, rdma_ports(machine)
    yield NetworkPlugins, InspectionResult(_plugins(machine, environment.get("LD_LIBRARY_PATH", "")))
    nodes = planned_node_count(launch, environment)
    yield PlannedNodes, InspectionResult(PlannedNodes(nodes))
    if nodes is not None and nodes > 1:
        yield Firewall, _firewall(machine)
    yield RendezvousEndpoint, find_rendezvous_endpoint(machine, launch, configuration, environment, interfaces.found)


def _plugins(machine: Machine, search: str) -> NetworkPlugins:
    present = [row for row in plugin_fabrics() if _has(machine, row.path, row.vendor)]
    folders = [folder for folder in search.split(":") if folder.startswith("/")]
    folders += [folder for row in present for folder in row.folders]
    for name in machine.entries("/etc/ld.so.conf.d").found or ():
        lines = machine.text(f"/etc/ld.so.conf.d/{name}").splitlines()
        folders += [line.strip() for line in lines if line.strip().startswith("/")]
    folders = list(dict.fromkeys((*folders, *_LIBRARY_FOLDERS)))
    files = [
        f"{folder.rstrip('/')}/{name}"
        for folder in folders
        for name in machine.entries(folder).found or ()
        if name.startswith("libnccl-net") and ".so" in name
    ]
    return NetworkPlugins(tuple(row.name for row in present), tuple(files), tuple(folders))


def _has(machine: Machine, path: str, vendor: str) -> bool:
    devices = machine.entries(path).found or ()
    return any(not vendor or machine.text(f"{path}/{one}/device/vendor") == vendor for one in devices)


def _firewall(machine: Machine) -> InspectionResult[Firewall]:
    rules = machine.command(["iptables", "-S"])
    if rules.found is None and rules.because is None:
        tables = machine.command(["nft", "list", "ruleset"])
        if tables.found is None or tables.found.code:
            return InspectionResult(because=say("neither iptables nor nft works here"), how="sudo nft list ruleset")
        return InspectionResult(Firewall({}, {}, tuple(_DROPPING.findall(tables.found.text)), _listening(machine)))
    if rules.found is None or rules.found.code:
        return InspectionResult(because=rules.because or say("reading the rules needs root"), how="sudo iptables -S")
    tables = machine.command(["nft", "list", "ruleset"])
    chains: dict[str, list[str]] = {}
    for match in _RULE.finditer(rules.found.text):
        chains.setdefault(match[1], []).append(match[0])
    # iptables shows only what iptables wrote; a ruleset of nftables' own may stand beside it.
    dropping = _DROPPING.findall(tables.found.text) if tables.found is not None and tables.found.code == 0 else []
    policies = dict(_CHAIN.findall(rules.found.text))
    own = tuple(chain for chain in dropping if chain not in policies)
    found = {name: tuple(lines) for name, lines in chains.items()}
    return InspectionResult(Firewall(found, policies, own, _listening(machine)))


def _listening(machine: Machine) -> tuple[int, int]:
    told = machine.text("/proc/sys/net/ipv4/ip_local_port_range").split()
    first, last = (*map(numbers.integer, told[:2]), None, None)[:2]
    return (32768, 60999) if first is None or last is None else (first, last)


def rdma_ports(machine: Machine) -> InspectionResult[RdmaPorts]:
    """Every InfiniBand and RoCE port (kernel: Documentation/ABI/stable/sysfs-class-infiniband)."""
    devices = machine.entries(ROOT)
    found = [port for device in devices.found or () for port in _ports(machine, device)]
    return InspectionResult(RdmaPorts(tuple(found)), devices.because)


def _ports(machine: Machine, device: str) -> Iterator[RdmaPort]:
    vendor = _read(machine, f"{device}/device/vendor")
    for name in machine.entries(f"{ROOT}/{device}/ports").found or ():
        if not name.isdecimal():
            continue
        here = f"{device}/ports/{name}"
        rate = re.match(r"[\d.]+", _read(machine, f"{here}/rate"))
        yield RdmaPort(
            device,
            int(name),
            _read(machine, f"{here}/state").rpartition(": ")[2],
            _read(machine, f"{here}/phys_state").rpartition(": ")[2],
            _read(machine, f"{here}/link_layer"),
            float(rate[0]) if rate else None,
            vendor,
            tuple(_gids(machine, here)),
        )


def _gids(machine: Machine, here: str) -> Iterator[Gid]:
    names = machine.entries(f"{ROOT}/{here}/gids").found or ()
    for index in sorted(int(name) for name in names if name.isdecimal())[:MAX_GIDS]:
        text = _read(machine, f"{here}/gids/{index}")
        if address_of(text) is not None and not _EMPTY.fullmatch(text):
            kind, interface = (_read(machine, f"{here}/gid_attrs/{what}/{index}") for what in ("types", "ndevs"))
            yield Gid(index, text, kind, interface)


def _read(machine: Machine, path: str) -> str:
    return machine.text(f"{ROOT}/{path}")


def interfaces_of(machine: Machine) -> InspectionResult[Interfaces]:
    """Every interface, by index.

    ``ip -j -d addr`` tells all of it in one answer; where there is no ``ip`` (small containers), the files of the
    kernel do, without second IPv4 addresses.
    """
    default = {fields[0] for fields in _routes(machine) if fields[1] == fields[7] == "00000000"}
    found = _from_ip(machine, default) or tuple(_from_files(machine, default))
    if not found:
        return InspectionResult(because=say("neither ip nor /sys/class/net lists the interfaces"), how="ip addr")
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
    running = "UP" in flags and row.get("operstate", "UNKNOWN") in ("UP", "UNKNOWN")
    ordered = tuple(sorted(addresses, key=lambda one: one.family))
    return NetworkInterface(
        int(row["ifindex"]), name, str(kind), running, int(row.get("mtu", 0)), ordered, name in default
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
        size = numbers.integer(_file(machine, name, "mtu")) or 0
        yield NetworkInterface(place, name, kind, running, size, tuple(addresses.get(name, ())), name in default)


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
