"""How detectors speak of the transports NCCL chose."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.machine.chosen_transports import chosen_transports
from unhang.facts.model import Facts
from unhang.findings import Evidence
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


def evidence(facts: Facts) -> tuple[Evidence, ...]:
    """One line of each way."""
    chosen = chosen_transports(facts)
    return chosen.evidence[:2] if chosen is not None else ()
