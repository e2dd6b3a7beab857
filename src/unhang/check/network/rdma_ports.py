"""InfiniBand and RoCE ports as ``/sys/class/infiniband`` shows them (kernel:
Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from unhang.check.network.network import Gid, RdmaPort, RdmaPorts
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine

ROOT = "/sys/class/infiniband"
MAX_GIDS = 32
_EMPTY = re.compile(r"[0:]+|fe80:[0:]+")


def rdma_ports(machine: Machine) -> InspectionResult[RdmaPorts]:
    """Every port of every device."""
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
        if _is_address(text) and not _EMPTY.fullmatch(text):
            kind, interface = (_read(machine, f"{here}/gid_attrs/{what}/{index}") for what in ("types", "ndevs"))
            yield Gid(index, text, kind, interface)


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _read(machine: Machine, path: str) -> str:
    return machine.text(f"{ROOT}/{path}")
