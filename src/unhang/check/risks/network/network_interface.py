"""NCCL or Gloo would take an interface that does not lead to the other nodes.

What happens: NCCL takes the first interface by its own rules, or those that ``NCCL_SOCKET_IFNAME`` names; Gloo those
that ``GLOO_SOCKET_IFNAME`` names, else the one the node's name resolves to.

Why it hangs: the others connect to an address that does not lead here, or NCCL finds no interface at all on one node;
the ranks there fail, and the rest waits.

Example: ``NCCL_SOCKET_IFNAME=eth0`` on a machine whose interface is called ``ens5``; ``NCCL_SOCKET_IFNAME=lo`` copied
from a single machine.

Fix: name the interface that leads to the other nodes, for both libraries.

Certain when: never; only the library's own log tells what it took.

Possible when: its rules, replayed here, lead to none, to loopback, or to one that is down.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.versions import Versions
from unhang.check.network.interface_choice import InterfaceChoice, gloo_choice, nccl_choice
from unhang.check.network.network import HostName, Interfaces, NetworkInterface
from unhang.check.risks.network.nodes_planned import weight_between_nodes
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Evidence, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge what each library would take."""
    result, settings = here.result(Interfaces), here.found(JobEnvironment) or JobEnvironment({})
    gap = could_not(CHECK, say("Which interface NCCL and Gloo would take"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    versions = here.found(Versions) or Versions({})
    yield from _judged(here, "NCCL", nccl_choice(result.found, settings, versions.of.get("nccl")), settings)
    host = here.result(HostName)
    if host.because is None or settings.value("GLOO_SOCKET_IFNAME"):
        yield from _judged(here, "Gloo", gloo_choice(result.found, settings, host.found), settings)


def _judged(here: NodeInspection, library: str, choice: InterfaceChoice, settings: JobEnvironment) -> Iterator[Answer]:
    seen = here.found(Interfaces) or Interfaces(())
    subject = choice.variable or f"{library} interface"
    setting = settings.in_force.get(choice.variable)
    evidence = (setting.evidence,) if setting is not None else ()
    between = weight_between_nodes(here)
    first = choice.interfaces[0] if choice.interfaces else None
    if first is None and choice.variable:
        value = settings.value(choice.variable) or ""
        summary = say("{name}={value} matches no usable interface of this node", name=choice.variable, value=value)
        yield _found(subject, Severity.STOPS, summary, seen, evidence)
    elif first is None:
        if between is not None:
            summary = say("{library} finds no interface it can use on this node", library=library)
            yield _found(subject, between, summary, seen, evidence)
    elif first.kind == "loopback" and between is not None:
        if choice.variable or library == "NCCL":  # Gloo's own choice is judged by the node's name
            summary = say("{library} would use loopback: {why}", library=library, why=choice.why)
            yield _found(subject, between, summary, seen, evidence)
    elif not first.running and first.kind != "loopback":
        summary = say("{library} would use {interface}, which is down", library=library, interface=first.name)
        yield _found(subject, between or Severity.NOTE, summary, seen, evidence)
    elif choice.address is not None and choice.address.link_local and between is not None:
        parts = {"library": library, "interface": first.name, "address": choice.address.text}
        summary = say("{library} would use {interface} by {address}, which leads nowhere but its own link", **parts)
        yield _found(subject, between, summary, seen, evidence)
    else:
        yield PassedCheck(CHECK, _would_use(library, choice, first))


def _would_use(library: str, choice: InterfaceChoice, first: NetworkInterface) -> Text:
    address = choice.address.text if choice.address is not None else "?"
    parts = {"library": library, "interface": first.name, "address": address, "why": choice.why}
    return say("{library} would use {interface} ({address}): {why}", **parts)


def _found(subject: str, severity: Severity, summary: Text, seen: Interfaces, evidence: tuple[Evidence, ...]) -> Answer:
    usable = [one for one in seen.all if one.running and one.kind != "loopback" and one.addresses]
    best = sorted(usable, key=lambda one: (not one.default_route, one.index))[:1]
    name = best[0].name if best else "eth0"
    listed = ", ".join(f"{one.name} ({one.addresses[0].text})" for one in usable) or "-"
    return risk(
        CHECK,
        subject,
        Cause.NETWORK_CONFIG,
        summary,
        severity=severity,
        because=(say("interfaces that are up and have an address: {listed}", listed=listed),),
        evidence=evidence,
        remedies=(
            Remedy(
                say("Name the interface that leads to the other nodes"),
                RemedyKind.ENVIRONMENT,
                say(
                    "NCCL_SOCKET_IFNAME takes beginnings of names, GLOO_SOCKET_IFNAME whole ones; "
                    "where nodes name it differently: NCCL_SOCKET_IFNAME=^docker,lo"
                ),
                say("none"),
                say("NCCL_DEBUG=INFO prints the interface it uses in the line 'Bootstrap'"),
                set={"NCCL_SOCKET_IFNAME": name, "GLOO_SOCKET_IFNAME": name} if severity is Severity.STOPS else {},
            ),
        ),
    )
