"""Risks in the network between nodes: what NCCL and Gloo would take there, where the ranks meet, what drops packets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unhang.check.environment.environment import Versions
from unhang.check.network.firewall import firewall_decision
from unhang.check.network.network import (
    Firewall,
    Gid,
    HostName,
    Interfaces,
    NetworkPlugins,
    RdmaPort,
    RdmaPorts,
    RendezvousEndpoint,
    is_link_local,
    is_loopback,
    nodes_of,
)
from unhang.check.network.transport_choice import (
    InterfaceChoice,
    forced_index,
    gid_in_force,
    gloo_choice,
    nccl_choice,
    used_ports,
)
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node, asked_of_several
from unhang.findings import Evidence, Finding, Grade, Severity, Source
from unhang.host.inspection_result import NOT_INSPECTED, NodeInspection
from unhang.knowledge.hardware import PluginFabric, node_local_interface, plugin_fabrics
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text

ROWS = RiskRows("network")


def network_interface(here: NodeInspection) -> Iterator[Answer]:
    """The others connect to an address that does not lead here, or the ranks of a node without interface fail."""
    result, settings = here.result(Interfaces), _settings(here)
    yield from ROWS.gap("interface", result)
    if result.found is None:
        return
    yield from _would_take(here, "NCCL", _nccl_choice(here, result.found))
    host = here.result(HostName)
    if host.because is None or settings.value("GLOO_SOCKET_IFNAME"):
        yield from _would_take(here, "Gloo", gloo_choice(result.found, settings, host.found))


def network_host_name(here: NodeInspection) -> Iterator[Answer]:
    """With ``127.0.1.1 NAME`` in /etc/hosts, Gloo tells the other nodes to connect to themselves."""
    result, interfaces, settings = here.result(HostName), here.found(Interfaces), _settings(here)
    yield from ROWS.gap("host-name", result)
    if result.found is None or interfaces is None or settings.value("GLOO_SOCKET_IFNAME"):
        return
    host, choice = result.found, gloo_choice(interfaces, settings, result.found)
    if choice.address is None or not choice.address.loopback:
        return  # said beside Gloo's interface
    severity = _weight(here)
    if severity is None:
        yield ROWS.fine("host-name", name=host.name)
        return
    real = nccl_choice(interfaces, JobEnvironment({}), None)
    address = real.address.text if real.address is not None else "10.0.0.1"
    values = {"name": host.name, "addresses": ", ".join(host.addresses) or "-", "address": address}
    interface = real.interfaces[0].name if real.interfaces else "eth0"
    yield ROWS.risk(
        "host-name",
        values,
        severity=severity,
        because=(ROWS.words("reach-themselves" if severity is Severity.STOPS else "nodes-not-known"),),
        remedies=(ROWS.remedy("name-gloo-interface", values, set=_named(severity, interface, "GLOO_SOCKET_IFNAME")),),
    )


def network_inner(here: NodeInspection) -> Iterator[Answer]:
    """A bridge of containers (``br-1a2b``, ``cni0``) has the same address on every node, or one others cannot reach."""
    interfaces, severity = here.found(Interfaces), _weight(here)
    if interfaces is None or severity is None:
        return
    taken = _nccl_choice(here, interfaces).interfaces
    outer = next((one.name for one in taken if not node_local_interface(one.name)), "eth0")
    ports = (here.found(RdmaPorts) or RdmaPorts(())).all
    if any(port.state == "ACTIVE" for port in ports) and _settings(here).value("NCCL_IB_DISABLE") in (None, "0"):
        taken = taken[:1]  # sockets serve for the first contact only
    for number, one in enumerate(taken):
        what = "" if one.default_route else node_local_interface(one.name)
        if not what:
            continue
        values = {"interface": one.name, "address": one.addresses[0].text if one.addresses else "?", "what": what}
        yield ROWS.risk(
            "inner",
            values,
            severity=severity,
            grade=None if number == 0 else Grade.BASE_RATE,
            remedies=(ROWS.remedy("leave-inner-out", values, set=_named(severity, outer, "NCCL_SOCKET_IFNAME")),),
        )


def network_rendezvous(here: NodeInspection) -> Iterator[Answer]:
    """All ranks connect to one address and port before anything else, again and again until the limit of the start."""
    result = here.result(RendezvousEndpoint)
    yield from ROWS.gap("rendezvous", result)
    endpoint = result.found
    if endpoint is None:
        return
    address, answer = endpoint.address, endpoint.answer
    values = {"address": address, "port": endpoint.port, "next_port": endpoint.port + 1, "reason": answer}
    if not endpoint.addresses:
        row = "not-resolved"
    elif (nodes_of(here) or 1) > 1 and (address == "localhost" or is_loopback(address)):
        row = "each-node-itself"
    elif answer == "taken":
        row = "port-taken"
    elif answer == "silent":
        row = "no-answer"
    elif answer in ("refused", "open", "free"):
        yield ROWS.fine("refused" if answer == "refused" else "open" if answer == "open" else "free", **values)
        return
    elif answer:
        row = "not-reached"
    else:
        return
    yield ROWS.risk(row, values, evidence=(endpoint.evidence,) if endpoint.evidence is not None else ())


def network_firewall(here: NodeInspection) -> Iterator[Answer]:
    """NCCL and Gloo listen on ports the kernel picks, on every node; what is dropped there is tried until the limit."""
    result = here.result(Firewall)
    if result is NOT_INSPECTED:
        return
    yield from ROWS.gap("firewall", result)
    firewall, meeting = result.found, here.found(RendezvousEndpoint)
    if firewall is None:
        return
    any_port = sum(firewall.listening) // 2
    ports = [meeting.port] if meeting is not None and meeting.here and meeting.port else []
    decisions = {port: firewall_decision(firewall, port) for port in (*ports, any_port)}
    closed = {port: one.rule for port, one in decisions.items() if one.verdict == "closed"}
    if closed:
        low, high = firewall.listening
        yield ROWS.risk(
            "firewall-drops-all" if any_port in closed else "firewall-drops-rendezvous",
            {"low": low, "high": high, "port": ports[0] if ports else None},
            evidence=tuple(Evidence(Source("iptables -S"), rule) for rule in dict.fromkeys(closed.values())),
        )
    elif firewall.dropping or any(one.verdict == "unsure" for one in decisions.values()):
        yield ROWS.could_not("firewall", ROWS.words("rules-not-followed"), "sudo nft list ruleset")
    else:
        yield ROWS.fine("firewall")


def network_ports(here: NodeInspection) -> Iterator[Answer]:
    """Over sockets, where no RDMA port is active, a collective takes ten times as long and reaches the limit."""
    result, settings, severity = here.result(RdmaPorts), _settings(here), _weight(here, Severity.SLOWS)
    yield from ROWS.gap("ports", result)
    if result.found is None or settings.value("NCCL_IB_DISABLE") == "1" or severity is None:
        return
    others = {row.vendor for row in plugin_fabrics() if row.vendor}
    own = [port for port in result.found.all if port.vendor not in others]
    ports, devices = used_ports(own, settings), settings.in_force.get("NCCL_IB_HCA")
    if own and not ports and devices is not None:
        values = {"value": devices.value, "names": ", ".join(dict.fromkeys(port.device for port in own))}
        yield ROWS.risk("device-unmatched", values, severity=severity, evidence=(devices.evidence,))
        return
    active = [port for port in ports if port.state == "ACTIVE"]
    for port in ports:
        if port.state != "ACTIVE":
            state = Source(f"/sys/class/infiniband/{port.device}/ports/{port.port}/state")
            yield ROWS.risk(
                "port-waits" if port.state == "INIT" and port.layer == "InfiniBand" else "port-down",
                {"name": port.name, "device": port.device, "state": port.state, "physical": port.physical or "?"},
                severity=severity if devices is not None or not active else Severity.NOTE,
                evidence=(Evidence(state, port.state),),
            )
    if active:
        yield from _slower(active)
        yield ROWS.fine("ports", names=", ".join(port.name for port in active))


def network_gid(here: NodeInspection) -> Iterator[Answer]:
    """A RoCE entry that is empty, link-local or of v1 does not reach other nodes: connections time out (status 12)."""
    ports, settings, severity = here.found(RdmaPorts), _settings(here), _weight(here)
    if ports is None or severity is None or settings.value("NCCL_IB_DISABLE") == "1":
        return
    fine: list[str] = []
    wrong: dict[tuple[str, int | None], list[RdmaPort]] = {}
    for port in used_ports(ports.all, settings):
        if port.layer == "Ethernet" and port.state == "ACTIVE":
            gid, forced = gid_in_force(here, port), forced_index(settings)
            fault = _wrong_gid(gid, forced)
            if fault:
                wrong.setdefault((fault, forced if gid is None else gid.index), []).append(port)
            else:
                fine.append(f"{port.name} {gid.index if gid is not None else '?'}")
    setting = settings.in_force.get("NCCL_IB_GID_INDEX")
    for (row, index), alike in wrong.items():
        port = alike[0]
        table = "; ".join(f"{gid.index}: {gid.text} {gid.type}".strip() for gid in port.gids) or "-"
        listed = Evidence(Source(f"/sys/class/infiniband/{port.device}/ports/{port.port}/gids"), table)
        yield ROWS.risk(
            row,
            {"index": index, "names": ", ".join(one.name for one in alike)},
            subject=port.name if setting is None else setting.name,
            severity=Severity.NOTE if row == "gid-v1" else severity,
            evidence=(listed,) if setting is None else (setting.evidence, listed),
            remedies=(ROWS.remedy("name-gid" if setting is None else "let-nccl-choose-gid"),),
        )
    if fine:
        yield ROWS.fine("gid", names=", ".join(fine))


def network_plugin(here: NodeInspection) -> Iterator[Answer]:
    """For EFA or Slingshot NCCL needs a plug-in, and takes TCP without a word when there is none."""
    result, settings, severity = here.result(NetworkPlugins), _settings(here), _weight(here, Severity.SLOWS)
    yield from ROWS.gap("plugin", result)
    plugins, named = result.found, settings.in_force.get("NCCL_NET_PLUGIN")
    if plugins is None or severity is None:
        return
    wish = named.value if named is not None else ""
    file = plugins.file_of(wish)
    if named is not None and wish not in ("", "none") and not plugins.fabrics and not file:
        values = {"value": wish, "count": len(plugins.folders)}
        yield ROWS.risk("plugin-unmatched", values, evidence=(named.evidence,))
    for fabric in plugin_fabrics():
        if fabric.name in plugins.fabrics and file:
            yield ROWS.fine("plugin", fabric=fabric.name, path=file)
        elif fabric.name in plugins.fabrics:
            yield _no_plugin(fabric, plugins, wish, severity)


def network_sameness(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Where the MTU differs, the first contact works and large packets are dropped without a word."""
    nodes = {here.node: _would_use(here) for here in situations}
    if len(nodes) < 2:
        return
    found = [
        *_differ(nodes, "MTU", ROWS.words("mtu"), grade=Grade.BASE_RATE),
        *_differ(nodes, "address family", ROWS.words("nccl-family")),
        *_differ(nodes, "address family of Gloo", ROWS.words("gloo-family")),
        *_differ(nodes, "RoCE", ROWS.words("roce-version")),
        *_differ(nodes, "RDMA ports", ROWS.words("active-ports"), grade=Grade.BASE_RATE, severity=Severity.SLOWS),
    ]
    yield from found
    if not found and any("MTU" in used for used in nodes.values()):
        yield ROWS.fine("sameness", count=len(nodes))


def _settings(here: NodeInspection) -> JobEnvironment:
    return here.found(JobEnvironment) or JobEnvironment({})


def _weight(here: NodeInspection, severity: Severity = Severity.STOPS) -> Severity | None:
    """``severity`` on several nodes, a note where their number is not known, None on one."""
    nodes = nodes_of(here)
    if nodes is None:
        return Severity.NOTE
    return severity if nodes > 1 else None


def _named(severity: Severity, interface: str, *variables: str) -> Mapping[str, str]:
    """The variables to set; none where it is not known that the job has several nodes."""
    return dict.fromkeys(variables, interface) if severity is Severity.STOPS else {}


def _nccl_choice(here: NodeInspection, interfaces: Interfaces) -> InterfaceChoice:
    versions = here.found(Versions) or Versions({})
    return nccl_choice(interfaces, _settings(here), versions.of.get("nccl"))


def _would_take(here: NodeInspection, library: str, choice: InterfaceChoice) -> Iterator[Answer]:
    seen, settings, severity = here.found(Interfaces) or Interfaces(()), _settings(here), _weight(here)
    first = choice.interfaces[0] if choice.interfaces else None
    usable = [one for one in seen.all if one.running and one.kind != "loopback" and one.addresses]
    values = {
        "library": library,
        "subject": choice.variable or f"{library} interface",
        "name": choice.variable,
        "value": settings.value(choice.variable) or "",
        "interface": "" if first is None else first.name,
        "address": "?" if choice.address is None else choice.address.text,
        "why": choice.why,
        "listed": ", ".join(f"{one.name} ({one.addresses[0].text})" for one in usable) or "-",
    }
    if first is None and choice.variable:
        row = "interface-unmatched"
        severity = Severity.STOPS
    elif first is None:
        row = "interface-missing"
    elif first.kind == "loopback" and severity is not None:
        if library == "Gloo" and not choice.variable:
            return  # judged by the node's name
        row = "interface-loopback"
    elif not first.running and first.kind != "loopback":
        row = "interface-down"
        severity = severity or Severity.NOTE
    elif choice.address is not None and choice.address.link_local and severity is not None:
        row = "interface-link-local"
    else:
        yield ROWS.fine("interface", **values)
        return
    if severity is None:
        return
    setting = settings.in_force.get(choice.variable)
    best = min(usable, key=lambda one: (not one.default_route, one.index), default=None)
    set_to = _named(severity, "eth0" if best is None else best.name, "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
    yield ROWS.risk(
        row,
        values,
        severity=severity,
        evidence=() if setting is None else (setting.evidence,),
        remedies=(ROWS.remedy("name-interface", set=set_to),),
    )


def _slower(active: Sequence[RdmaPort]) -> Iterator[Finding]:
    """Ports of a lower rate than most have; a second kind of card for storage is usual, so it is a note."""
    fastest = max(port.rate or 0.0 for port in active)
    slower = [port for port in active if port.rate is not None and port.rate < fastest]
    if slower and 2 * len(slower) <= len(active):
        first, names = slower[0], ", ".join(port.name for port in slower)
        rate = {"rate": f"{first.rate:g}", "fastest": f"{fastest:g}"}
        yield ROWS.risk("port-slower", {"name": first.name, "device": first.device, "names": names, **rate})


def _wrong_gid(gid: Gid | None, forced: int | None) -> str:
    """The row that says what is wrong with an entry; empty where it is well."""
    if gid is None:
        row = "gid-none" if forced is None else "gid-empty"
    elif is_link_local(gid.text):
        row = "gid-link-local"
    elif gid.type and "v2" not in gid.type:
        row = "gid-v1"
    else:
        return ""
    return row


def _no_plugin(fabric: PluginFabric, plugins: NetworkPlugins, wish: str, severity: Severity) -> Finding:
    other = next((path for path in plugins.files if f"-{fabric.suffix}." in path), None)
    because = ROWS.words("no-plugin", count=len(plugins.folders))
    remedy = ROWS.remedy("install-plugin", {"plugin": fabric.plugin})
    if other is not None:
        because = ROWS.words("plugin-by-other-name", path=other)
        remedy = ROWS.remedy("name-plugin", set={"NCCL_NET_PLUGIN": fabric.suffix})
    if wish == "none":
        because = ROWS.words("plugins-off")
    values = {"fabric": fabric.name}
    return ROWS.risk("plugin-missing", values, severity=severity, because=(because,), remedies=(remedy,))


def _would_use(here: NodeInspection) -> dict[str, str]:
    """What this node would use, by what is compared; what is not known is left out."""
    interfaces, host, ports = here.found(Interfaces), here.found(HostName), here.found(RdmaPorts)
    used: dict[str, str] = {}
    if interfaces is not None and (choice := _nccl_choice(here, interfaces)).interfaces:
        used["MTU"] = str(choice.interfaces[0].mtu)
        if choice.address is not None:
            used["address family"] = f"IPv{choice.address.family}"
    if interfaces is not None and host is not None:
        address = gloo_choice(interfaces, _settings(here), host).address
        if address is not None:
            used["address family of Gloo"] = f"IPv{address.family}"
    if ports is not None:
        active = [port for port in ports.all if port.state == "ACTIVE"]
        gids = [gid_in_force(here, port) for port in active if port.layer == "Ethernet"]
        kinds = ", ".join(sorted({gid.type for gid in gids if gid is not None and gid.type}))
        used["RDMA ports"] = str(len(active))
        if kinds:
            used["RoCE"] = kinds
    return used


def _differ(nodes: Mapping[str, Mapping[str, str]], subject: str, what: Text, **parts: Any) -> Iterator[Finding]:
    kinds: dict[str, list[str]] = {}
    for node, used in nodes.items():
        if subject in used:
            kinds.setdefault(used[subject], []).append(node)
    if len(kinds) < 2:
        return
    usual = max(kinds, key=lambda value: len(kinds[value]))
    odd = tuple(node for value, names in kinds.items() if value != usual for node in names)
    listed = "; ".join(
        f"{value}: {', '.join(names[:4])}{'…' if len(names) > 4 else ''}" for value, names in kinds.items()
    )
    values = {"what": what, "listed": listed, "nodes": ", ".join(odd)}
    yield ROWS.risk("sameness", values, subject=subject, nodes=odd, **parts)


RISKS = (
    *asked_of_a_node("network", network_interface, network_host_name, network_inner, network_rendezvous),
    *asked_of_a_node("network", network_firewall, network_ports, network_gid, network_plugin),
    *asked_of_several("network", network_sameness),
)
