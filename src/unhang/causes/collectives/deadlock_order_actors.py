"""deadlock-order: a rank waits for an answer of an actor that is a rank too, and waits for it in a collective.

What happens: one actor of a training group asks another with `ray.get`, which stands in a collective of that group.
Why it hangs: an actor answers one call after the other; the one it is in ends when all ranks are in the collective.
Example: `ray.get(peer.count.remote())` on rank 0 in the middle of a step, and rank 1 in `dist.all_reduce`.
Fix: exchange such values with a collective, ask outside of the step, or let the actor answer beside
(`max_concurrency=2`).
Certain when: never: which object of the class is asked, no source tells.
Possible when: likely, where the class of those who wait has the method that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording.stall_signal import stall_signal, waiters_line
from unhang.facts.laggard.actor_waits import ActorWait
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.model import Facts, Stall
from unhang.findings import Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.DEADLOCK_ORDER


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards in ``ray.get`` for a method of the class in which the others stand."""
    for at, asked in laggards_doing(facts, ActorWait):
        stall = at.stall
        yield stall_signal(
            CAUSE,
            Grade.SOURCE,
            _summary(stall, asked),
            facts,
            stall,
            whole=False,
            phase=Phase.COMMUNICATION,
            because=(
                *waiters_line(stall),
                say(
                    "rank {busy} is in `{inside}` of the actor class {actor}, which has `{method}` too: an actor "
                    "answers one call after the other",
                    busy=asked.busy,
                    inside=asked.inside,
                    actor=asked.actor,
                    method=asked.method,
                ),
            ),
            remedies=(remedy("avoid-circular-actor-call", method=asked.method),),
        )


def _summary(stall: Stall, asked: ActorWait) -> Text:
    if asked.through:
        return say(
            "{ranks:who} {ranks:waits|wait} for an answer of `{through}`, which asks for `{method}` of an actor that "
            "cannot answer meanwhile",
            ranks=stall.laggards,
            through=asked.through,
            method=asked.method,
        )
    return say(
        "{ranks:who} {ranks:waits|wait} for an answer of `{method}` from an actor that stands in a collective "
        "with {ranks:it|them}",
        ranks=stall.laggards,
        method=asked.method,
    )
