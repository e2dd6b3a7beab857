"""Which RDMA ports NCCL would use, and which entry of a RoCE port's GID table (``ncclIbGetGidIndex``, NCCL v2.30.7-1
net_ib/connect.cc).

By itself it prefers IPv4, then RoCE v2, and passes over empty and link-local entries; ``NCCL_IB_GID_INDEX`` is taken as
it is. Before 2.21 the index was 0 unless it was set.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from unhang.check.environment.versions import Versions
from unhang.check.network.interface_choice import interface_matches
from unhang.check.network.network import Gid, RdmaPort
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment

_FAMILIES = {"AF_INET": 4, "AF_INET6": 6}


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
    usable = [gid for gid in port.gids if not is_link_local(gid)]
    best = sorted(usable, key=lambda gid: (family_of(gid) != family, f"v{version}" not in gid.type, gid.index))
    return best[0] if best else gid_at(port, 0)


def is_link_local(gid: Gid) -> bool:
    """``fe80::…``: it means something on its own link only."""
    return ipaddress.ip_address(gid.text).is_link_local


def family_of(gid: Gid) -> int:
    """4 for an IPv4 address written as IPv6."""
    address = ipaddress.ip_address(gid.text)
    return 4 if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None else 6
