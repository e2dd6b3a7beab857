"""What may carry a collective that all joined and none finished: what NCCL chose, and suspects, each with its test."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import Signal, make_signal
from unhang.causes.evidence_lines import group_label
from unhang.facts.machine.chosen_transports import chosen_transports
from unhang.facts.model import AllJoinedStall, Facts
from unhang.findings import Cause, Evidence, Grade, Remedy
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say


def chosen_transport_reason(facts: Facts) -> Iterator[Text]:
    """One sentence, where NCCL told."""
    chosen = chosen_transports(facts)
    if chosen is None or not chosen.ways:
        return
    names = ", ".join(chosen.ways)
    if chosen.multicast:
        yield say("NCCL chose these ways between the cards: {ways}, and the switch's multicast (NVLS)", ways=names)
    else:
        yield say("NCCL chose these ways between the cards: {ways}", ways=names)


def transport_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """One line of each way."""
    chosen = chosen_transports(facts)
    return chosen.evidence[:2] if chosen is not None else ()


SUSPECTS = (Cause.NETWORK_FAULT, Cause.GPU_HARDWARE, Cause.P2P_BROKEN)
# Groups that never touch a GPU.
CPU_BACKENDS = {"gloo", "mpi", "ucc"}


def transport_suspects(facts: Facts, stall: AllJoinedStall | None = None) -> Iterator[Signal]:
    """One *possible* finding each, without ``stall`` of no known group; where no GPU takes part only the network."""
    cpu = any(r.recording is not None and r.recording.backend in CPU_BACKENDS for r in facts.ranks.values())
    for cause in SUSPECTS[:1] if cpu else SUSPECTS:
        if not _may_carry(facts, cause):
            continue
        yield make_signal(
            cause,
            Grade.BASE_RATE,
            say("possible, since all ranks joined and none finished; no direct evidence of it was given"),
            group=group_label(facts, stall.group) if stall is not None else None,
            remedies=(_test_of(cause),),
        )


def _may_carry(facts: Facts, cause: Cause) -> bool:
    """False for a way that NCCL, as every rank's lines of the start tell, does not use."""
    chosen = chosen_transports(facts)
    if chosen is None or not chosen.all_told:
        return True
    if cause is Cause.P2P_BROKEN:
        return chosen.uses("P2P")
    one_node = len({known.host for known in facts.ranks.values()}) == 1
    return cause is not Cause.NETWORK_FAULT or chosen.uses("NET") or not one_node


def _test_of(cause: Cause) -> Remedy:
    if cause is Cause.NETWORK_FAULT:
        return remedy("test-node-network")
    if cause is Cause.GPU_HARDWARE:
        return remedy("check-gpu-health")
    return remedy("test-without-p2p")
