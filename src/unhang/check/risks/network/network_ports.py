"""A port of the RDMA fabric is down, or slower than its neighbours.

What happens: NCCL uses every port that is active, and TCP sockets when none is. ``NCCL_IB_HCA`` narrows that down.

Why it hangs: it is slow rather than stopped: over sockets a collective takes ten times as long, and reaches the limit;
a port that comes and goes ends the job.

Example: a cable that is not plugged in; ``State: Initializing`` without a subnet manager; ``NCCL_IB_HCA=mlx5_0`` on a
node whose device is called ``mlx5_bond_0``.

Fix: the cable, the switch or the subnet manager; correct ``NCCL_IB_HCA``.

Certain when: the kernel says that the port is not active.

Possible when: one port has a lower rate than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.network.interface_choice import interface_matches
from unhang.check.network.network import RdmaPort, RdmaPorts
from unhang.check.risks.network.nodes_planned import weight_between_nodes
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware.fabrics import plugin_fabrics
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the ports NCCL would use."""
    result, settings = here.result(RdmaPorts), here.found(JobEnvironment) or JobEnvironment({})
    gap = could_not(CHECK, say("The state of the RDMA ports"), result)
    if gap is not None:
        yield gap
    severity = weight_between_nodes(here, Severity.SLOWS)
    if result.found is None or settings.value("NCCL_IB_DISABLE") == "1" or severity is None:
        return
    own = [
        port for port in result.found.all if port.vendor not in {row.vendor for row in plugin_fabrics() if row.vendor}
    ]
    ports = used_ports(own, settings)
    if own and not ports:
        yield _none_matches(settings, own, severity)
        return
    active = [port for port in ports if port.state == "ACTIVE"]
    for port in ports:
        if port.state != "ACTIVE":
            chosen = settings.value("NCCL_IB_HCA") is not None
            yield _down(port, severity if chosen or not active else Severity.NOTE)
    if active:
        yield from _slower(active)
        names = ", ".join(port.name for port in active)
        yield PassedCheck(CHECK, say("RDMA ports that are active: {names}", names=names))


def used_ports(ports: Sequence[RdmaPort], settings: JobEnvironment) -> list[RdmaPort]:
    """Those ``NCCL_IB_HCA`` leaves; ``mlx5_1:2`` names a port."""
    spec = settings.value("NCCL_IB_HCA") or ""
    words = [word for word in spec.lstrip("^=").split(",") if ":" in word]
    wrong = {word.partition(":")[0]: word.split(":")[1] for word in words} if not spec.startswith("^") else {}
    return [
        port
        for port in ports
        if not spec
        or (interface_matches(spec, port.device) and wrong.get(port.device, str(port.port)) == str(port.port))
    ]


def _none_matches(settings: JobEnvironment, own: Sequence[RdmaPort], severity: Severity) -> Answer:
    setting = settings.in_force["NCCL_IB_HCA"]
    return risk(
        CHECK,
        "NCCL_IB_HCA",
        Cause.NETWORK_CONFIG,
        say("NCCL_IB_HCA={value} matches no device of this node: NCCL would use TCP sockets", value=setting.value),
        severity=severity,
        because=(say("devices here: {names}", names=", ".join(dict.fromkeys(port.device for port in own))),),
        evidence=(setting.evidence,),
        remedies=(
            Remedy(
                say("Take NCCL_IB_HCA out, or name the devices of this node"),
                RemedyKind.ENVIRONMENT,
                say("ibv_devices lists them; =mlx5_1 names one exactly, mlx5_1 means mlx5_10 too"),
                say("none"),
                say("NCCL_DEBUG=INFO prints 'NET/IB : Using'"),
                unset=("NCCL_IB_HCA",),
            ),
        ),
    )


def _down(port: RdmaPort, severity: Severity) -> Answer:
    waiting = port.state == "INIT" and port.layer == "InfiniBand"
    return risk(
        CHECK,
        port.name,
        Cause.NETWORK_FAULT,
        say("The port {name} waits for a subnet manager (state {state})", name=port.name, state=port.state)
        if waiting
        else say(
            "The port {name} is not active (state {state}, {physical})",
            name=port.name,
            state=port.state,
            physical=port.physical or "?",
        ),
        severity=severity,
        certainty=Certainty.CERTAIN,
        evidence=(Evidence(Source(f"/sys/class/infiniband/{port.device}/ports/{port.port}/state"), port.state),),
        remedies=(
            Remedy(
                say("Start the subnet manager, or ask who runs the fabric")
                if waiting
                else say("See to the cable and the switch, or leave the port out"),
                RemedyKind.INFRASTRUCTURE,
                say("NCCL_IB_HCA=^{device} leaves the device out", device=port.device),
                say("the bandwidth of that port"),
                say("ibstat, or rdma link: the state is ACTIVE"),
            ),
        ),
    )


def _slower(active: Sequence[RdmaPort]) -> Iterator[Answer]:
    """Ports of a lower rate than most have; a second kind of card for storage is usual, so it is a note."""
    rates = [port.rate for port in active if port.rate is not None]
    fastest = max(rates, default=0.0)
    slower = [port for port in active if port.rate is not None and port.rate < fastest]
    if not slower or len(slower) > len(active) - len(slower):
        return
    names = ", ".join(port.name for port in slower)
    parts = {"names": names, "rate": f"{slower[0].rate:g}", "fastest": f"{fastest:g}"}
    yield risk(
        CHECK,
        slower[0].name,
        Cause.NETWORK_FAULT,
        say("{names} runs at {rate} Gb/s, the others at {fastest}", **parts),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        remedies=(
            Remedy(
                say("See whether the link came up at its full width, or is meant for storage"),
                RemedyKind.INFRASTRUCTURE,
                say("a reseated cable; or NCCL_IB_HCA=^{device} leaves it out", device=slower[0].device),
                say("the bandwidth of that port"),
                say("ibstat shows its rate"),
            ),
        ),
    )
