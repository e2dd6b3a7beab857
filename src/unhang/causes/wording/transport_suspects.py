"""What may carry a collective that all joined and none finished: what NCCL chose, and suspects without evidence."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import Signal, make_signal
from unhang.causes.evidence_lines import group_label
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.machine.nccl_reports import chosen_transports
from unhang.facts.model import Facts
from unhang.findings import Cause, Evidence, Grade
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


# Groups that never touch a GPU.
CPU_BACKENDS = {"gloo", "mpi", "ucc"}


def transport_suspect(cause: Cause, facts: Facts, test: str, way: str | None = None) -> Iterator[Signal]:
    """A *possible* finding for each call that all joined and none finished, if ``way`` (``NET``, ``P2P``) may carry it,
    or without one the GPUs themselves. ``test``: the remedy that tells more.
    """
    if not _may_carry(facts, way):
        return
    for group in _all_joined(facts):
        yield make_signal(
            cause,
            Grade.BASE_RATE,
            say("possible, since all ranks joined and none finished; no direct evidence of it was given"),
            group=group,
            remedies=(remedy(test),),
        )


def _all_joined(facts: Facts) -> Iterator[str | None]:
    """The groups; none is known of a call in which somebody ended the job."""
    # Where somebody is behind, groups that look symmetric only wait behind the others.
    yield from (group_label(facts, stall.group) for stall in (() if facts.graph.edges else facts.all_joined_stalls))
    by_hand = ended_by_user(facts)
    if by_hand is not None and by_hand.all_joined:
        yield None


def _may_carry(facts: Facts, way: str | None) -> bool:
    """False for a way that NCCL does not use, as every rank's first lines tell, and for GPUs of a CPU backend."""
    if any(r.recording is not None and r.recording.backend in CPU_BACKENDS for r in facts.ranks.values()):
        return way == "NET"
    chosen = chosen_transports(facts)
    if chosen is None or not chosen.all_told or way is None or chosen.uses(way):
        return True
    return way == "NET" and len({known.host for known in facts.ranks.values()}) > 1
