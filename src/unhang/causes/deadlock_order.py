"""deadlock-order: ranks wait for each other in a circle, because they entered groups or partners in opposite order.

What happens: rank 0 is in group A and rank 1 in group B, each waiting for the other; or everyone sends before anyone
receives; or ranks tear groups down in different order.
Why it hangs: nobody in the circle can go on until somebody else in it does.
Example: `send(to next); recv(from previous)` on all ranks with tensors too large to buffer.
Fix: one order of groups on all ranks; even ranks send first and odd ranks receive first, or `batch_isend_irecv`.
Certain when: the wait-for graph has a circle of recorded calls, or all ranks are in a receive.
Possible when: only stacks tell that everyone is in a blocking send, or the order of queued calls differs; likely when
the names that the program gives its groups tell that the ranks wait in different ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.gone_around import gone_around
from unhang.facts.left_partners import left_partners
from unhang.facts.model import Facts, PendingCall
from unhang.facts.operations import POINT_TO_POINT
from unhang.facts.order_swap import swapped_groups
from unhang.facts.progress_from_stacks import STACK_GROUP
from unhang.facts.teardown import ranks_in_teardown
from unhang.findings import Call, Cause, Certainty, Evidence, Phase, Remedy, Text, say
from unhang.rules.evidence_lines import group_label, hosts_of, place_of, quote_rank
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.DEADLOCK_ORDER


def check(facts: Facts) -> Iterator[Answer]:
    """Circles of the wait-for graph, partners that all send or all receive, queues in opposite order, teardown."""
    for cycle in facts.graph.cycles:
        if left_partners(facts, cycle) is None and gone_around(facts, cycle) is None:
            yield _circle(facts, cycle)
    if not facts.graph.cycles:
        yield from _all_in_p2p(facts)
        yield from _swapped(facts)
    yield from _teardown(facts)


def _calls(facts: Facts, ranks: tuple[int, ...]) -> dict[int, PendingCall]:
    calls: dict[int, PendingCall] = {}
    for rank in ranks:
        for _, group in sorted(facts.groups.items()):
            progress = group.progress.get(rank)
            if progress is not None and progress.pending is not None:
                calls.setdefault(rank, progress.pending)
    return calls


def _waits(waiter: int, awaited: int, group: str | None) -> Text:
    if group is None:  # known from stacks alone
        return say("rank {waiter} waits for rank {awaited}", waiter=waiter, awaited=awaited)
    return say("rank {waiter} waits in group {group} for rank {awaited}", waiter=waiter, group=group, awaited=awaited)


def _circle(facts: Facts, cycle: tuple[int, ...]) -> Answer:
    edges = [e for e in facts.graph.edges if e.waiter in cycle and e.awaited in cycle]
    calls = _calls_in(facts, cycle, {(e.waiter, e.group) for e in edges})
    because = [_waits(e.waiter, e.awaited, group_label(facts, e.group)) for e in edges[:6]]
    p2p = any(call.operation in POINT_TO_POINT for call in calls.values())
    # Names tell groups apart, not who belongs to them.
    by_name = any(call.group.startswith(STACK_GROUP) and call.group != STACK_GROUP for call in calls.values())
    return _found(
        facts,
        cycle,
        calls,
        Certainty.LIKELY if by_name else Certainty.CERTAIN,
        say("{ranks:who} wait for each other in a circle", ranks=cycle),
        tuple(because),
        _order_partners() if p2p else _one_order(),
    )


def _calls_in(facts: Facts, ranks: tuple[int, ...], places: set[tuple[int, str]]) -> dict[int, PendingCall]:
    calls: dict[int, PendingCall] = {}
    for rank, name in sorted(places):
        progress = facts.groups[name].progress.get(rank)
        if rank in ranks and progress is not None and progress.pending is not None:
            calls.setdefault(rank, progress.pending)
    return calls


def _all_in_p2p(facts: Facts) -> Iterator[Answer]:
    """Everybody alive is in a blocking send or receive."""
    alive = tuple(r for r, known in facts.ranks.items() if known.alive and known.activity is not None)
    calls = _calls(facts, alive)
    if len(alive) < 2 or set(calls) != set(alive):
        return
    operations = {call.operation for call in calls.values()}
    if not operations <= POINT_TO_POINT or facts.graph.edges:
        return
    receiving = all("recv" in operation for operation in operations)
    sending = all("send" in operation for operation in operations)
    if not receiving and not sending:
        return
    if receiving:
        summary = say("all ranks are in a receive; nobody sends")
    else:
        summary = say("all ranks are in a blocking send; nobody has reached its receive")
    because = (
        say("{ranks:who} are in {operations} at the same time", ranks=alive, operations=", ".join(sorted(operations))),
        say("a receive returns only when somebody sends to it")
        if receiving
        else say("a send of a large tensor returns only when its partner receives"),
    )
    complete = not facts.ranks_missing
    yield _found(
        facts, alive, calls, Certainty.CERTAIN if complete else Certainty.LIKELY, summary, because, _order_partners()
    )


def _swapped(facts: Facts) -> Iterator[Answer]:
    swap = swapped_groups(facts)
    if swap is None:
        return
    ranks = tuple(sorted({*swap.first_ranks, *swap.second_ranks}))
    because = (
        say(
            "{ranks:who} queued group {first} before group {second}",
            ranks=swap.first_ranks,
            first=swap.first,
            second=swap.second,
        ),
        say("{ranks:who} queued them the other way round", ranks=swap.second_ranks),
        say("nobody finished either: on a device that runs one of them at a time this is a deadlock"),
    )
    yield _found(
        facts,
        ranks,
        _calls(facts, ranks),
        Certainty.LIKELY,
        say("{ranks:who} use two groups in opposite order", ranks=ranks),
        because,
        _one_order(),
    )


def _teardown(facts: Facts) -> Iterator[Answer]:
    stuck = ranks_in_teardown(facts)
    if stuck is None:
        return
    together = remedy("end-all-ranks-together")
    because = (
        say("training is over: no rank has an unfinished step"),
        say("{ranks:who} {ranks:stands|stand} in the teardown of its groups", ranks=stuck.ranks),
    )
    yield _found(
        facts,
        stuck.ranks,
        _calls(facts, stuck.ranks),
        stuck.certainty,
        say("{ranks:who} {ranks:is|are} stuck tearing its process groups down", ranks=stuck.ranks),
        because,
        together,
        phase=Phase.SHUTDOWN,
    )


def _found(
    facts: Facts,
    ranks: tuple[int, ...],
    calls: dict[int, PendingCall],
    certainty: Certainty,
    summary: Text,
    because: tuple[Text, ...],
    remedy: Remedy,
    phase: Phase | None = Phase.COMMUNICATION,
) -> Answer:
    ordered = [calls[rank] for rank in ranks if rank in calls]
    first = ranks[0]
    other = next((r for r in ranks[1:] if place_of(facts, r) != place_of(facts, first)), ranks[-1])
    return finding(
        CAUSE,
        certainty,
        summary,
        ranks=ranks,
        nodes=hosts_of(facts, ranks),
        group=group_label(facts, ordered[0].group) if ordered else None,
        phase=phase,
        where=place_of(facts, first),
        waiter_where=place_of(facts, other),
        calls=tuple(
            Call((rank,), calls[rank].operation, calls[rank].position, calls[rank].elements, calls[rank].dtype)
            for rank in ranks[:8]
            if rank in calls
        ),
        because=because,
        evidence=_evidence(facts, ranks, calls),
        remedies=(remedy,),
    )


def _evidence(facts: Facts, ranks: tuple[int, ...], calls: dict[int, PendingCall]) -> tuple[Evidence, ...]:
    quotes: list[Evidence] = []
    for rank in ranks[:3]:
        quotes.extend(quote_rank(facts.ranks[rank])[:1])
        if rank in calls:
            quotes.append(calls[rank].evidence)
    return tuple(dict.fromkeys(quotes))


def _one_order() -> Remedy:
    return remedy("use-the-groups-in-one-order-on")


def _order_partners() -> Remedy:
    return remedy("pair-every-send-with-a-receive-that")
