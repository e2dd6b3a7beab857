"""NVLinks are down, or the fabric manager does not run.

What happens: on machines with NVSwitch a service, the fabric manager, joins the cards; without it CUDA does not start
(error 802, ``system not yet initialized``). Single links can be down as well.

Why it hangs: no rank of this node starts, or NCCL takes PCIe for some pairs and the whole group waits for them.

Example: ``Fabric State: In Progress``; ``Link 3: <inactive>`` on one card only.

Fix: start the service of the driver's own version; reset the cards; take the node out.

Certain when: never; in a virtual machine the service runs on the host.

Possible when: neither the cards nor systemd tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.devices import Cards
from unhang.check.devices.topology import NvlinkFabric, NvLinks
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "topology"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the fabric, then single links."""
    fabric, links = here.result(NvlinkFabric), here.result(NvLinks)
    gaps = (
        could_not(CHECK, say("Whether the fabric manager runs"), fabric),
        could_not(CHECK, say("Whether all NVLinks are up"), links),
    )
    yield from (gap for gap in gaps if gap is not None)
    stuck = {} if fabric.found is None else _stuck(fabric.found)
    if fabric.found is not None and (stuck or _stopped(fabric.found)):
        yield _not_joined(here, fabric.found, stuck)
        return
    if fabric.found is not None and fabric.because is None:
        yield PassedCheck(CHECK, say("the NVSwitch fabric is ready"))
    if links.found is not None:
        yield from _links(links.found, switched=fabric.found is not None)


def _stuck(fabric: NvlinkFabric) -> dict[str, str]:
    """What cards say that are not joined."""
    return {
        bus: f"{state}, {status}"
        for bus, (state, status) in fabric.states.items()
        if state != "Completed" or status not in ("Success", "N/A")
    }


def _stopped(fabric: NvlinkFabric) -> bool:
    """The service does not run, and no card says that it is joined all the same (a host's service does it then)."""
    return fabric.manager in ("inactive", "failed") and not fabric.states


def _not_joined(here: NodeInspection, fabric: NvlinkFabric, stuck: dict[str, str]) -> Answer:
    cards = here.found(Cards) or Cards()
    indices = [card.index for card in cards.cards if card.bus in stuck]
    evidence = [Evidence(Source("nvidia-smi -q"), f"{bus}: Fabric {told}") for bus, told in list(stuck.items())[:4]]
    if fabric.manager:
        evidence.append(Evidence(Source("systemctl is-active nvidia-fabricmanager"), fabric.manager))
    if fabric.log:
        evidence.append(Evidence(Source("/var/log/fabricmanager.log"), fabric.log))
    return risk(
        CHECK,
        "fabric manager",
        Cause.GPU_HARDWARE,
        say(
            "{cards:card|cards} {cards} {cards:is|are} not in the NVSwitch fabric: CUDA does not start (error 802)",
            cards=indices,
        )
        if indices
        else say("the fabric manager does not run: CUDA does not start (error 802)"),
        certainty=Certainty.LIKELY if stuck else Certainty.POSSIBLE,
        evidence=tuple(evidence),
        remedies=(
            Remedy(
                say("Start the fabric manager; its version must be the driver's"),
                RemedyKind.INFRASTRUCTURE,
                say("sudo systemctl enable --now nvidia-fabricmanager; driver: {driver}", driver=cards.driver or "?"),
                say("none"),
                say("nvidia-smi -q says Fabric State: Completed, Status: Success"),
            ),
        ),
    )


def _links(links: NvLinks, *, switched: bool) -> Iterator[Answer]:
    """A card without any link up may just have no bridge, unless switches join all cards."""
    most = max((up + down for up, down in links.links.values()), default=0)
    up_most = max((up for up, _ in links.links.values()), default=0)
    lacking = {card: up for card, (up, _) in links.links.items() if up < up_most and (up or switched)}
    if not lacking:
        if up_most:
            yield PassedCheck(CHECK, say("no NVLink is down: {count} of a card are up", count=up_most))
        return
    card, up = next(iter(lacking.items()))
    yield risk(
        CHECK,
        "card " + ", ".join(str(index) for index in lacking),
        Cause.GPU_HARDWARE,
        say(
            "card {index} has {up} of {most} NVLinks up, other cards have {others}",
            index=card,
            up=up,
            most=most,
            others=up_most,
        ),
        severity=Severity.SLOWS,
        certainty=Certainty.POSSIBLE,
        evidence=tuple(Evidence(Source("nvidia-smi nvlink -s"), f"GPU {i}: {n} links up") for i, n in lacking.items()),
        remedies=(
            Remedy(
                say("Reset the card, and leave it out if the links stay down"),
                RemedyKind.INFRASTRUCTURE,
                say("nvidia-smi nvlink -e -i {index}; sudo nvidia-smi -r when nobody uses the cards", index=card),
                say("all cards of this machine are reset together"),
                say("nvidia-smi nvlink -s shows every link with its speed"),
            ),
        ),
    )
