"""What cards exchange over PCIe is sent up to the processor.

What happens: Access Control Services (ACS) of PCIe bridges, or an IOMMU that looks up every address, send what one card
writes to another up to the processor and back. Virtual machines need ACS.

Why it hangs: P2P over this way is slow, and on some machines it never ends; NCCL's documentation asks to switch ACS off
on bare metal. Where NVLink joins the cards, only the way to the network cards is concerned.

Example: ``ACSCtl: SrcValid+ … ReqRedir+`` on the bridges above the cards; ``intel_iommu=on`` without ``iommu=pt``.

Fix: switch ACS off (BIOS, ``setpci``), ``iommu=pt``; in a virtual machine ask for NVLink, or ``NCCL_P2P_LEVEL=PIX``.

Certain when: never; some platforms take the detour without harm.

Possible when: the job's cards have no NVLink, or the machine has RDMA.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.chosen_cards import find_chosen_cards
from unhang.check.devices.peer_access import has_no_p2p
from unhang.check.devices.topology import AccessControl, CardTopology, Iommu, VirtualMachine
from unhang.check.environment.machine_limits import RdmaDevices
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "topology"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge ACS, then the IOMMU, where cards talk over PCIe."""
    chosen, ways = find_chosen_cards(here), here.found(CardTopology)
    if chosen is None or len(chosen.cards) < 2 or ways is None or has_no_p2p(here):
        return
    linked = ways.linked(chosen.indices)
    rdma = here.found(RdmaDevices)
    if linked and (rdma is None or not rdma.names):
        return
    maker = (here.found(VirtualMachine) or VirtualMachine()).maker
    answers = [*_access_control(here, maker), *_iommu(here, maker)]
    yield from answers
    if maker and not answers and not linked:
        yield _virtual(maker)


def _access_control(here: NodeInspection, maker: str) -> Iterator[Answer]:
    result = here.result(AccessControl)
    gap = could_not(CHECK, say("Whether bridges send what cards exchange up to the processor (ACS)"), result)
    if gap is not None and not maker:
        yield gap
    if result.found is None:
        return
    if not result.found.bridges:
        yield PassedCheck(CHECK, say("ACS redirects nothing"))
        return
    remedy, count = _level() if maker else _switch_off(), len(result.found.bridges)
    yield _finding(
        "ACS",
        say("ACS is on at {count} bridges: what cards exchange goes up to the processor", count=count),
        say("a virtual machine needs ACS; only its host can change it") if maker else None,
        Evidence(Source("lspci -vvv"), f"ReqRedir+ at {', '.join(result.found.bridges[:8])}"),
        remedy,
    )


def _iommu(here: NodeInspection, maker: str) -> Iterator[Answer]:
    iommu = here.found(Iommu)
    if iommu is None or maker:
        return
    if iommu.state != "translated":
        yield PassedCheck(CHECK, say("no IOMMU stands between the cards"))
        return
    remedy = Remedy(
        say("Let the IOMMU pass addresses through"),
        RemedyKind.INFRASTRUCTURE,
        say("kernel command line: iommu=pt (or switch the IOMMU off in the BIOS)"),
        say("a restart of the machine; devices are less isolated from each other"),
        say("/sys/bus/pci/devices/BUS/iommu_group/type says identity"),
    )
    summary = say("the IOMMU looks up every address the cards exchange")
    yield _finding("IOMMU", summary, None, Evidence(Source(iommu.how), iommu.state), remedy)


def _finding(subject: str, summary: Text, because: Text | None, evidence: Evidence, remedy: Remedy) -> Answer:
    return risk(
        CHECK,
        subject,
        Cause.P2P_BROKEN,
        summary,
        severity=Severity.SLOWS,
        certainty=Certainty.POSSIBLE,
        because=() if because is None else (because,),
        evidence=(evidence,),
        remedies=(remedy,),
    )


def _switch_off() -> Remedy:
    return Remedy(
        say("Switch ACS off"),
        RemedyKind.INFRASTRUCTURE,
        say("in the BIOS, or sudo setpci -s BRIDGE ECAP_ACS+6.w=0000 for each bridge (until the next restart)"),
        say("devices are less isolated from each other"),
        say("sudo lspci -vvv | grep ACSCtl shows ReqRedir- everywhere"),
    )


def _level() -> Remedy:
    return Remedy(
        say("If the job stalls, let P2P stay below one switch"),
        RemedyKind.CONFIG,
        say("NCCL_P2P_LEVEL=PIX for the job; ask the provider for machines with NVLink"),
        say("other pairs go through the machine's memory"),
        say("the first collective returns"),
    )


def _virtual(maker: str) -> Answer:
    return risk(
        CHECK,
        "virtual machine",
        Cause.P2P_BROKEN,
        say("a virtual machine ({maker}) without NVLink: the PCIe ways it shows may not be the real ones", maker=maker),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        remedies=(_level(),),
    )
