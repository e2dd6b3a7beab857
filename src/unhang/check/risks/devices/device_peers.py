"""Cards cannot reach each other's memory.

What happens: consumer cards since the RTX 40 series, and some boards, do not let one card read another's memory. NCCL
then goes through the memory of the machine.

Why it hangs: it does not where NCCL knows; drivers before 550.40.07 say of RTX 40 cards what does not hold, and the
first collective waits for ever. accelerate switches P2P and InfiniBand off there by itself, torchrun does not.

Example: two RTX 4090 with driver 535: ``NCCL_P2P_DISABLE=1`` makes the job go on.

Fix: a newer driver; until then ``NCCL_P2P_DISABLE=1``.

Certain when: never; NCCL chooses its ways at run time.

Possible when: the driver is one of those.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.chosen_cards import find_chosen_cards
from unhang.check.devices.devices import Cards
from unhang.check.devices.peer_access import barred_pairs, offers_unsupported_p2p
from unhang.check.devices.topology import PeerAccess
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import say

CHECK = "topology"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the pairs of the job's cards."""
    result, cards, chosen = here.result(PeerAccess), here.found(Cards), find_chosen_cards(here)
    if cards is None or chosen is None or len(chosen.cards) < 2:
        return
    settings = here.found(JobEnvironment)
    off = settings is not None and settings.value("NCCL_P2P_DISABLE") == "1"
    if offers_unsupported_p2p(cards, chosen) and not off:
        yield _hangs(cards)
        return
    gap = could_not(CHECK, say("Whether the cards may read each other's memory"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    barred = barred_pairs(result.found, chosen)
    if barred:
        yield _through_memory(barred)
    else:
        yield PassedCheck(CHECK, say("every card may read the others' memory"))


def _hangs(cards: Cards) -> Answer:
    return risk(
        CHECK,
        "NCCL_P2P_DISABLE",
        Cause.P2P_BROKEN,
        say("driver {driver} lets NCCL try P2P between RTX 40 cards, which may never end", driver=cards.driver),
        certainty=Certainty.POSSIBLE,
        because=(say("accelerate launch switches P2P off here with drivers before 550.40.07; torchrun does not"),),
        evidence=(Evidence(Source("nvidia-smi"), f"driver_version: {cards.driver}; {cards.cards[0].name}"),),
        remedies=(
            Remedy(
                say("Switch P2P off until the driver is newer"),
                RemedyKind.ENVIRONMENT,
                say("data goes through the machine's memory, as it does anyway on these cards"),
                say("none on these cards"),
                say("NCCL_DEBUG=INFO says via SHM"),
                set={"NCCL_P2P_DISABLE": "1"},
            ),
            Remedy(
                say("Install driver 550.40.07 or newer"),
                RemedyKind.INFRASTRUCTURE,
                say("it no longer offers P2P where there is none"),
                say("a restart of the machine"),
                say("nvidia-smi topo -p2p r"),
            ),
        ),
    )


def _through_memory(barred: list[tuple[int, int, str]]) -> Answer:
    first, second, state = barred[0]
    count = len(barred)
    return risk(
        CHECK,
        "P2P",
        Cause.P2P_BROKEN,
        say(
            "no P2P between cards {first} and {second} ({state}): NCCL goes through the machine's memory",
            first=first,
            second=second,
            state=state,
        ),
        severity=Severity.NOTE,
        because=(say("pairs without P2P: {count}; nothing has to be set, NCCL sees it", count=count),),
        evidence=(Evidence(Source("nvidia-smi topo -p2p r"), f"GPU{first} GPU{second}: {state}"),),
        remedies=(
            Remedy(
                say("Leave it; give /dev/shm room"),
                RemedyKind.CONFIG,
                say("shared memory is what the cards exchange through"),
                say("slower than P2P: every byte crosses PCIe twice"),
                say("NCCL_DEBUG=INFO says via SHM"),
            ),
        ),
    )
