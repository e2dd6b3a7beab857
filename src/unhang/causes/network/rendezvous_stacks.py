"""rendezvous: in stacks: every rank that was seen waits for the others to come, and nobody moves.

What happens: all stand in `init_process_group` or `new_group`; the store counts arrivals and one is still missing.
Why it hangs: a process was not started, uses another address, port or world size; or ranks make groups in different
number or order, so that each waits under another name.
Example: `world_size=3` in the program and two processes; `new_group` inside `if rank in members:` and again outside.
Fix: start as many processes as announced; call `new_group` on every rank of the job, in one order.
Certain when: never: who is missing is not in these stacks.
Possible when: there was only one look (a start takes its time), or a rank of the job was not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import hosts_of, place_of
from unhang.causes.wording.interface_remedies import bisect_setting_remedy
from unhang.facts.model import Facts, RankFacts
from unhang.facts.waiting.progress_from_stacks import GROUP_CREATION_CALLS, is_creating_group
from unhang.findings import Cause, Grade, Phase, Remedy
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.RENDEZVOUS


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Everybody alive makes a group, at one kind of call."""
    alive = [known for known in facts.ranks.values() if known.alive and known.stack is not None]
    if not alive or facts.graph.edges or not all(is_creating_group(known.activity) for known in alive):
        return
    if any(known.unanswered for known in alive):  # they have met: nobody is missing
        return
    calls = {GROUP_CREATION_CALLS[known.activity.what] for known in alive if known.activity is not None}
    if len(calls) != 1:
        return
    (call,) = calls
    ranks = tuple(known.rank for known in alive)
    still = all(known.moving is False or _was_idle_before(known) for known in alive)
    # A rank that exists and was not sampled may simply be on its way.
    everyone = len(alive) == len(facts.ranks)
    late = tuple(rank for rank in facts.ranks if rank not in ranks) if call == "init_process_group" else ()
    yield make_signal(
        CAUSE,
        Grade.STACK,
        say("{ranks:who} {ranks:waits|wait} in {call} for {late:who}", ranks=ranks, call=call, late=late)
        if late
        else say("{ranks:who} {ranks:waits|wait} in {call} for others that do not come", ranks=ranks, call=call),
        whole=still and everyone,
        ranks=late,
        nodes=hosts_of(facts, ranks),
        phase=Phase.INIT,
        where=None if late else place_of(facts, ranks[0]),
        waiter_where=place_of(facts, ranks[0]),
        because=(
            say("every rank whose stack was read stands there, and none moves")
            if still
            else say("every rank whose stack was read stands there; there was only one look"),
            _why_late(facts, late)
            if late
            else say(
                "the store waits for as many processes as the program announced: one is missing, or looks elsewhere"
            )
            if call == "init_process_group"
            else say("all ranks have come, so they make different groups: some made one more, or in other order"),
        ),
        evidence=tuple(known.activity.evidence for known in alive[:3] if known.activity is not None),
        remedies=tuple(_remedies(call, alive)),
    )


def _remedies(call: str, alive: list[RankFacts]) -> Iterator[Remedy]:
    if call != "init_process_group":
        yield remedy("create-groups-everywhere")
        return
    yield remedy("check-launch-environment")
    if all(_past_the_store(known) for known in alive):
        # The group itself is being made: who is awaited may have come, and not be able to connect to here.
        yield bisect_setting_remedy()


def _past_the_store(known: RankFacts) -> bool:
    threads = known.stack.threads if known.stack is not None else ()
    return any(frame.function == "_new_process_group_helper" for thread in threads for frame in thread.frames)


def _why_late(facts: Facts, late: tuple[int, ...]) -> Text:
    if set(late) <= set(facts.ranks_missing):
        return say("nothing was seen of {late:who}: not started, on its way, or on another machine", late=late)
    return say("{late:who} {late:lives|live}; where {late:it stands|they stand} could not be seen", late=late)


def _was_idle_before(known: RankFacts) -> bool:
    return known.moving is None and bool(known.earlier_stacks)
