"""rank-conditional-collective: a key in the store that one rank was to set, which went on without setting it.

What happens: ranks wait in `store.get` or `store.wait`; who sets that key is in the next collective already.
Why it hangs: those at the store wait for the key, and who would set it waits for them.
Example: `if noise is None: return last` on rank 0 above `store.set(key, noise)`, and `store.get(key)` on the others.
Fix: set the key in every round, also where nothing changed; or broadcast the value.
Certain when: never; a key may be set in a thread, or by another program.
Possible when: likely, where the source sets a key that is spelled like the one waited for.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.evidence_lines import operation_of, place_of
from unhang.causes.wording.stall_signal import stall_signal
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.store_key_setters import UnsetKey
from unhang.findings import Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards at the store, and a line of the program at which those who wait for them set such a key."""
    yield from (_never_set(facts, at.stall, key) for at, key in laggards_doing(facts, UnsetKey))


def _never_set(facts: Facts, stall: Stall, found: UnsetKey) -> DetectorResult:
    """Where most ranks are with the setters, it is who waits at the store that left the common way."""
    here = place_of(facts, stall.laggards[0])
    alone = len(found.setters) > len(stall.laggards)
    return stall_signal(
        CAUSE,
        Grade.SOURCE,
        _summary(stall, found, alone=alone),
        facts,
        stall,
        ranks=stall.laggards if alone else found.setters,
        whole=False,
        phase=Phase.COMMUNICATION,
        where=here if alone else found.where,
        waiter_where=place_of(facts, found.setters[0]) if alone else here,
        because=tuple(_because(stall, found)),
        remedies=(remedy("always-set-store-key", line=found.where.line),),
    )


def _summary(stall: Stall, found: UnsetKey, *, alone: bool) -> Text:
    who = {"ranks": found.setters, "waiting": stall.laggards}
    if alone:
        return say("{waiting:who} {waiting:waits|wait} for a key that {ranks:who} {ranks:has|have} not set", **who)
    return say(
        "{ranks:who} went on without setting the key that {waiting:who} {waiting:waits|wait} for at the store", **who
    )


def _because(stall: Stall, found: UnsetKey) -> Iterator[Text]:
    yield say(
        "{waiting:who} {waiting:waits|wait} for the key {key}, which the program sets at line {line}",
        waiting=stall.laggards,
        key=found.key,
        line=found.where.line,
    )
    if found.branch is not None:
        yield say(
            "only some ranks come to that line: `{test}` at line {line}", test=found.branch.test, line=found.branch.line
        )
    yield say(
        "{ranks:who} {ranks:is|are} in {operation} with those who wait: neither side can go on",
        ranks=found.setters,
        operation=operation_of(stall.call),
    )
