"""Risks in how the cards of a node reach each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.chosen_cards import (
    barred_pairs,
    better_choice,
    farthest_link,
    find_chosen_cards,
    has_no_p2p,
    offers_unsupported_p2p,
    parts_to_choose,
    topology_from_numa,
)
from unhang.check.devices.devices import (
    BETWEEN,
    DISTANCES,
    AccessControl,
    Cards,
    CardTopology,
    Iommu,
    NvlinkFabric,
    NvLinks,
    PciCards,
    PeerAccess,
    VirtualMachine,
)
from unhang.check.environment.environment import RdmaDevices
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Evidence, Finding, Grade, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text

ROWS = RiskRows("topology")
SLOW = DISTANCES.index("SYS")
ONE_SWITCH = DISTANCES.index("PIX")


def device_spread(here: NodeInspection) -> Iterator[Answer]:
    """Collectives between processors are slower, and ways between processors are where P2P over PCIe fails first."""
    result, cards, chosen = here.result(CardTopology), here.found(Cards), find_chosen_cards(here)
    yield from ROWS.gap("spread", result)
    if cards is None or chosen is None or len(chosen.cards) < 2:
        return
    ways = result.found or topology_from_numa(cards, here.found(PciCards) or PciCards())
    worst = farthest_link(ways, chosen.cards)
    if worst is None:
        return
    better = better_choice(cards, ways, chosen)
    nearer = None if better is None else farthest_link(ways, better)
    if better is None or nearer is None or nearer >= worst or (worst < SLOW and nearer > 0):
        yield ROWS.fine("spread", cards=chosen.indices, way=BETWEEN[worst])
        return
    numa = {ways.numa[index] for index in chosen.indices if index in ways.numa}
    values = {
        "cards": chosen.indices,
        "count": len(numa),
        "way": BETWEEN[worst],
        "better": [card.index for card in better],
        "nearer": BETWEEN[nearer],
    }
    remedy = "use-nearer-cards-if-yours" if chosen.named else "use-nearer-cards"
    because = (*_groups(ways, chosen.indices), ROWS.words("nearer-idle", **values))
    source = Source("nvidia-smi topo -m" if ways.told else "/sys/bus/pci/devices")
    places = "; ".join(f"GPU{index}: NUMA {ways.numa.get(index, '?')}" for index in chosen.indices)
    yield ROWS.risk(
        "between-processors" if worst == SLOW and len(numa) > 1 else "far-apart",
        values,
        subject=chosen.subject,
        because=because,
        evidence=(Evidence(source, places),),
        remedies=(ROWS.remedy(remedy, values, **parts_to_choose(chosen, better)),),
    )


def _groups(ways: CardTopology, indices: Sequence[int]) -> Iterator[Text]:
    """Which of the cards share a NUMA node, and which of them a PCIe switch."""
    nodes: dict[int, list[int]] = {}
    switches: dict[int, list[int]] = {}
    for index in indices:
        if index in ways.numa:
            nodes.setdefault(ways.numa[index], []).append(index)
        first = next((one for one in switches if ways.distance(one, index) == ONE_SWITCH), index)
        switches.setdefault(first, []).append(index)
    for node, cards in sorted(nodes.items()):
        yield ROWS.words("on-node", cards=cards, node=node)
    for cards in switches.values():
        if len(cards) > 1:
            yield ROWS.words("on-switch", cards=cards)


def device_peers(here: NodeInspection) -> Iterator[Answer]:
    """Drivers before 550.40.07 say of RTX 40 cards that one may read another's memory; the first collective hangs."""
    result, cards, chosen = here.result(PeerAccess), here.found(Cards), find_chosen_cards(here)
    if cards is None or chosen is None or len(chosen.cards) < 2:
        return
    settings = here.found(JobEnvironment) or JobEnvironment({})
    if offers_unsupported_p2p(cards, chosen) and settings.value("NCCL_P2P_DISABLE") != "1":
        said = Evidence(Source("nvidia-smi"), f"driver_version: {cards.driver}; {cards.cards[0].name}")
        yield ROWS.risk("offers-false-p2p", {"driver": cards.driver}, evidence=(said,))
        return
    yield from ROWS.gap("peers", result)
    if result.found is None:
        return
    barred = barred_pairs(result.found, chosen)
    if not barred:
        yield ROWS.fine("peers")
        return
    first, second, state = barred[0]
    said = Evidence(Source("nvidia-smi topo -p2p r"), f"GPU{first} GPU{second}: {state}")
    values = {"first": first, "second": second, "state": state, "count": len(barred)}
    yield ROWS.risk("no-p2p", values, evidence=(said,))


def device_detour(here: NodeInspection) -> Iterator[Answer]:
    """What cards exchange over PCIe goes up to the processor (ACS, IOMMU): slow, and on some machines it never ends.

    Where NVLink joins the cards, only the way to the network cards is concerned.
    """
    chosen, ways = find_chosen_cards(here), here.found(CardTopology)
    if chosen is None or len(chosen.cards) < 2 or ways is None or has_no_p2p(here):
        return
    linked, rdma = ways.linked(chosen.indices), here.found(RdmaDevices)
    if linked and (rdma is None or not rdma.names):
        return
    maker = (here.found(VirtualMachine) or VirtualMachine()).maker
    answers = [*_access_control(here, maker), *([] if maker else _iommu(here))]
    yield from answers
    if maker and not answers and not linked:
        yield ROWS.risk("virtual-machine", {"maker": maker})


def _access_control(here: NodeInspection, maker: str) -> Iterator[Answer]:
    result = here.result(AccessControl)
    if not maker:
        yield from ROWS.gap("access-control", result)
    if result.found is None:
        return
    bridges = result.found.bridges
    if not bridges:
        yield ROWS.fine("access-control")
        return
    yield ROWS.risk(
        "access-control-of-host" if maker else "access-control",
        {"count": len(bridges)},
        evidence=(Evidence(Source("lspci -vvv"), f"ReqRedir+ at {', '.join(bridges[:8])}"),),
    )


def _iommu(here: NodeInspection) -> Iterator[Answer]:
    iommu = here.found(Iommu)
    if iommu is None:
        return
    if iommu.state == "translated":
        yield ROWS.risk("iommu", evidence=(Evidence(Source(iommu.how), iommu.state),))
    else:
        yield ROWS.fine("iommu")


def device_link_width(here: NodeInspection) -> Iterator[Answer]:
    """A card with fewer PCIe lanes than it could have makes all others wait; an idle card runs them slower."""
    chosen = find_chosen_cards(here)
    told = [] if chosen is None else [(c, c.width, c.width_max) for c in chosen.cards if c.width and c.width_max]
    narrow = [(card, width, most) for card, width, most in told if width < most]
    if not narrow:
        if told:
            yield ROWS.fine("lanes")
        return
    alike = len({width for _, width, _ in told}) == 1 and len(told) > 1
    first, width, most = narrow[0]
    cards = ", ".join(str(card.index) for card, _, _ in narrow)
    yield ROWS.risk(
        "few-lanes-on-all" if alike else "few-lanes",
        {"cards": cards, "index": first.index, "width": width, "most": most, "bus": first.bus},
        evidence=tuple(
            Evidence(Source("nvidia-smi"), f"GPU {card.index}: pcie.link.width {width} / {most}")
            for card, width, most in narrow
        ),
    )


def device_fabric(here: NodeInspection) -> Iterator[Answer]:
    """Without the fabric manager CUDA does not start on machines with NVSwitch (error 802).

    Where single links are down, NCCL takes PCIe for some pairs, and the whole group waits for them.
    """
    result, links = here.result(NvlinkFabric), here.result(NvLinks)
    yield from ROWS.gap("fabric", result)
    yield from ROWS.gap("links", links)
    fabric = result.found
    if fabric is not None:
        stuck = {
            bus: f"{state}, {status}"
            for bus, (state, status) in fabric.states.items()
            if state != "Completed" or status not in ("Success", "N/A")
        }
        # A card that says it is joined is joined by a service of the host.
        if stuck or (fabric.manager in ("inactive", "failed") and not fabric.states):
            yield _not_joined(here, fabric, stuck)
            return
        if result.because is None:
            yield ROWS.fine("fabric")
    if links.found is not None:
        yield from _links(links.found, switched=fabric is not None)


def _not_joined(here: NodeInspection, fabric: NvlinkFabric, stuck: dict[str, str]) -> Finding:
    cards = here.found(Cards) or Cards()
    indices = [card.index for card in cards.cards if card.bus in stuck]
    evidence = [Evidence(Source("nvidia-smi -q"), f"{bus}: Fabric {told}") for bus, told in list(stuck.items())[:4]]
    if fabric.manager:
        evidence.append(Evidence(Source("systemctl is-active nvidia-fabricmanager"), fabric.manager))
    if fabric.log:
        evidence.append(Evidence(Source("/var/log/fabricmanager.log"), fabric.log))
    return ROWS.risk(
        "not-joined" if indices else "fabric-manager-stopped",
        {"cards": indices, "driver": cards.driver or "?"},
        grade=None if stuck else Grade.BASE_RATE,
        evidence=tuple(evidence),
    )


def _links(links: NvLinks, *, switched: bool) -> Iterator[Answer]:
    """A card without any link up may just have no bridge, unless switches join all cards."""
    most = max((up + down for up, down in links.links.values()), default=0)
    up_most = max((up for up, _ in links.links.values()), default=0)
    lacking = {card: up for card, (up, _) in links.links.items() if up < up_most and (up or switched)}
    if not lacking:
        if up_most:
            yield ROWS.fine("links", count=up_most)
        return
    card, up = next(iter(lacking.items()))
    yield ROWS.risk(
        "links-down",
        {"cards": ", ".join(map(str, lacking)), "index": card, "up": up, "most": most, "others": up_most},
        evidence=tuple(Evidence(Source("nvidia-smi nvlink -s"), f"GPU {i}: {n} links up") for i, n in lacking.items()),
    )


RISKS = asked_of_a_node("topology", device_spread, device_peers, device_detour, device_link_width, device_fabric)
