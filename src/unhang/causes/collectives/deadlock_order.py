"""deadlock-order: ranks wait for each other in a circle, because they enter groups or meet partners in opposite order.

What happens: rank 0 is in group A and rank 1 in group B, each waiting for the other; or every rank sends before any
rank receives; or ranks destroy their groups in different order.
Why it hangs: no rank in the circle can continue until another one in it does.
Example: `send(to next); recv(from previous)` on all ranks with tensors too large to buffer; `action 0SEND_F1` and
`action 1SEND_F0` as the last lines of a pipeline's schedule.
Fix: one order of groups on all ranks; even ranks send first and odd ranks receive first, or `batch_isend_irecv`.
Certain when: the wait-for graph has a circle of recorded calls, or all ranks are in a receive.
Likely when: only the names of groups show that the ranks wait in different ones; the order of queued calls differs; or
no line of the program shows where the ranks part (inside a library whose loop one of them may have left, or in a torn
stack).
Possible when: a rank may be missing, and only stacks or log lines show where the others are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, operation_of, place_of, quote_rank, waiters_call
from unhang.causes.wording.signals import stall_signal, waiters_line
from unhang.evidence.items import LogEvent
from unhang.facts.alignment.swapped_group_order import swapped_groups
from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.divergence.skipped_calls import unmatched_in_cycle, unmatched_unnamed_partners
from unhang.facts.endings.good_endings import events_of_processes
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.laggard.waits_on_others import ActorWait, FileLockCycle
from unhang.facts.logs.log_statements import first_attempt, quote_events
from unhang.facts.logs.waits_in_logs import LogWait, logged_waits
from unhang.facts.model import Facts, PendingCall
from unhang.facts.stacks.stack_divergence import diverge_in_library, first_differing_frames
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.facts.worlds.role_waits import waits_in_circle
from unhang.findings import Call, Cause, Evidence, Grade, Phase, Remedy, Where
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.knowledge.worlds.roles import spoken_role
from unhang.sentences import Text

CAUSE = Cause.DEADLOCK_ORDER
tell = Sentences("causes/deadlock-order.toml")
_ACTION = re.compile(r"\d+(?P<kind>SEND|RECV)_")
_PAIR_SENDS = "post-receives-first"


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Circles of the wait-for graph, partners that all send or all receive, queues in opposite order, teardown."""
    for cycle in facts.graph.cycles:
        if unmatched_in_cycle(facts, cycle) is None:  # else a call of the circle is missing, whatever the order
            yield _cycle(facts, cycle)
    if not facts.graph.cycles:
        yield from _all_in_p2p(facts)
        yield from _swapped(facts)
    yield from _teardown(facts)
    yield from _schedule(facts)
    yield from _parts(facts)


def _parts(facts: Facts) -> Iterator[DetectorResult]:
    """Trainers, engines and drivers that wait for each other in a circle, by their stacks or their last lines."""
    circle = waits_in_circle(facts.role_waits)
    if not circle:
        return
    each = [(spoken_role(wait.waiter), spoken_role(wait.awaited), wait) for wait in circle]
    said = () if all(wait.where for wait in circle) else (tell("last-words"),)
    yield make_signal(
        Grade.ORDER,
        tell("parts-in-circle", first=each[0][0], then=each[0][1]),
        because=(*(tell("part-waits", waiter=one, awaited=other, what=w.what) for one, other, w in each), *said),
        evidence=tuple(wait.evidence for wait in circle),
        where=circle[0].where,
        waiter_where=circle[1].where,
        remedies=(remedy("break-circle-of-parts"),),
    )


def _calls(facts: Facts, ranks: tuple[int, ...]) -> dict[int, PendingCall]:
    return _calls_in(facts, ((rank, name) for rank in ranks for name in sorted(facts.groups)))


def _waits(waiter: int, awaited: int, group: str | None) -> Text:
    if group is None:  # known from stacks alone
        return tell("waits-for", waiter=waiter, awaited=awaited)
    return tell("waits-in-group", waiter=waiter, group=group, awaited=awaited)


def _cycle(facts: Facts, cycle: tuple[int, ...]) -> DetectorResult:
    edges = [e for e in facts.graph.edges if e.waiter in cycle and e.awaited in cycle]
    calls = _calls_in(facts, sorted({(e.waiter, e.group) for e in edges}))
    p2p = any(call.operation in POINT_TO_POINT for call in calls.values())
    # Names tell groups apart, not who belongs to them.
    by_name = any(call.group.startswith(STACK_GROUP) and call.group != STACK_GROUP for call in calls.values())
    return _found(
        facts,
        cycle,
        calls,
        Grade.STACK if by_name else Grade.RECORD,
        tell("circle", ranks=cycle),
        whole=not _diverge_in_library(facts, cycle),
        because=tuple(_waits(e.waiter, e.awaited, group_label(facts, e.group)) for e in edges[:6]),
        remedies=(remedy(_PAIR_SENDS if p2p else "use-same-group-order"),),
    )


def _diverge_in_library(facts: Facts, ranks: tuple[int, ...]) -> bool:
    stacks = [activity.frames for rank in ranks if (activity := facts.ranks[rank].activity) is not None]
    return any(diverge_in_library(stacks[0], stack) for stack in stacks[1:])


def _calls_in(facts: Facts, places: Iterable[tuple[int, str]]) -> dict[int, PendingCall]:
    """Of each rank the first of these groups in which it is in a call."""
    calls: dict[int, PendingCall] = {}
    for rank, name in places:
        call = facts.groups[name].pending(rank)
        if call is not None:
            calls.setdefault(rank, call)
    return calls


def _all_in_p2p(facts: Facts) -> Iterator[DetectorResult]:
    """Everybody alive is in a blocking send or receive."""
    alive = tuple(r for r, known in facts.ranks.items() if known.alive and known.activity is not None)
    calls = _calls(facts, alive)
    if len(alive) < 2 or set(calls) != set(alive):
        return
    operations = sorted({call.operation for call in calls.values()})
    if not POINT_TO_POINT.issuperset(operations) or facts.graph.edges:
        return
    receiving = all(operation in ("recv", "irecv") for operation in operations)
    sending = all(operation in ("send", "isend") for operation in operations)
    if (not receiving and not sending) or unmatched_unnamed_partners(facts) is not None:
        return
    yield _found(
        facts,
        alive,
        calls,
        Grade.RECORD,
        tell("all-receive" if receiving else "all-send"),
        whole=not facts.ranks_missing,
        because=(
            tell("at-once", ranks=alive, operations=", ".join(operations)),
            tell("receive-needs-send" if receiving else "send-needs-receive"),
        ),
        remedies=(remedy(_PAIR_SENDS),),
    )


def _swapped(facts: Facts) -> Iterator[DetectorResult]:
    if (swap := swapped_groups(facts)) is None:
        return
    ranks = tuple(sorted({*swap.first_ranks, *swap.second_ranks}))
    yield _found(
        facts,
        ranks,
        _calls(facts, ranks),
        Grade.RECORD,
        tell("opposite-order", ranks=ranks),
        whole=False,  # whether the device runs one of them at a time is not recorded
        because=(
            tell("queued-before", ranks=swap.first_ranks, first=swap.first, second=swap.second),
            tell("queued-other-way", ranks=swap.second_ranks),
            tell("both-unfinished"),
        ),
        remedies=(remedy("use-same-group-order"),),
    )


def _teardown(facts: Facts) -> Iterator[DetectorResult]:
    """Nobody is still training, and all that live stand at the end."""
    living = {rank: known.activity for rank, known in facts.ranks.items() if known.alive}
    ranks = tuple(sorted(rank for rank, activity in living.items() if activity is not None))
    if not ranks or any(a is not None and a.phase is not Phase.SHUTDOWN for a in living.values()):
        return
    yield _found(
        facts,
        ranks,
        _calls(facts, ranks),
        Grade.STACK,
        tell("stuck-teardown", ranks=ranks),
        whole=not facts.ranks_missing,
        phase=Phase.SHUTDOWN,
        because=(tell("training-over"), tell("in-teardown", ranks=ranks)),
        remedies=(remedy("shut-down-together"),),
    )


def _schedule(facts: Facts) -> Iterator[DetectorResult]:
    """All ranks' last schedule lines are sends, or all are receives."""
    last: dict[int, LogEvent] = {}
    for event in first_attempt(facts.events_of("pp.action")):
        if event.rank is not None:
            last[event.rank] = event
    kinds = {rank: found["kind"] for rank, e in last.items() if (found := _ACTION.match(str(e.values["action"])))}
    if len(kinds) < 2 or len(kinds) != len(last) or len(set(kinds.values())) != 1:
        return
    ranks = tuple(sorted(kinds))
    yield make_signal(
        Grade.ORDER,
        tell("ranks-send" if "SEND" in kinds.values() else "ranks-receive", ranks=ranks),
        whole=facts.world_size in (None, len(ranks)),
        ranks=ranks,
        phase=Phase.COMMUNICATION,
        calls=tuple(Call((rank,), kinds[rank].lower()) for rank in ranks),
        because=(tell("schedule-ends-alike"),),
        evidence=quote_events(last[rank] for rank in ranks),
        remedies=(remedy("pair-pipeline-sends"),),
    )


def _found(
    facts: Facts, ranks: tuple[int, ...], calls: dict[int, PendingCall], grade: Grade, summary: Text, **parts: Any
) -> DetectorResult:
    first = next((calls[rank] for rank in ranks if rank in calls), None)
    where, other_where = _places(facts, ranks)
    return make_signal(
        grade,
        summary,
        ranks=ranks,
        group=group_label(facts, first.group) if first is not None else None,
        where=where,
        waiter_where=other_where,
        calls=tuple(call for rank in ranks[:8] for call in waiters_call((rank,), calls.get(rank))),
        evidence=_evidence(facts, ranks, calls),
        **{"phase": Phase.COMMUNICATION, **parts},
    )


def _places(facts: Facts, ranks: tuple[int, ...]) -> tuple[Where | None, Where | None]:
    """Two places that differ; where all stand on one line of a function that they share, those that call it."""
    first = place_of(facts, ranks[0])
    others = [place_of(facts, rank) for rank in ranks[1:]]
    if differs := [place for place in others if place != first]:
        return first, differs[0]
    stacks = [activity.frames for rank in ranks if (activity := facts.ranks[rank].activity) is not None]
    for stack in stacks[1:]:
        parted = first_differing_frames(stacks[0], stack)
        if parted is not None:
            one, other = (Where(frame.file, frame.line, frame.function) for frame in parted)
            return one, other
    return first, first


def _evidence(facts: Facts, ranks: tuple[int, ...], calls: dict[int, PendingCall]) -> tuple[Evidence, ...]:
    quotes: list[Evidence] = []
    for rank in ranks[:3]:
        quotes.extend(quote_rank(facts.ranks[rank])[:1])
        if rank in calls:
            quotes.append(calls[rank].evidence)
    return tuple(dict.fromkeys(quotes))


# ---------------------------------------------------------------------------------------------------
# lines alone


def detect_printed(facts: Facts) -> Iterator[DetectorResult]:
    """Every rank that was heard gave up waiting at the same time: all in sends, or all in receives, or in groups of
    which each lacks somebody (`[PG ID 1 PG GUID 1 Rank 0]` and `[PG ID 2 PG GUID 2 Rank 1]` alone there, or some in
    `default_pg`), who waits in another one. Likely at most, and possible where a rank may be missing from the log."""
    logged = logged_waits(facts)
    if logged is None or any(known.recording is not None for known in facts.ranks.values()):
        return
    ranks, waits = logged.ranks, logged.waits
    if len(ranks) < 2 or ranks != facts.ranks_seen or ranks[-1] >= len(ranks) or not _at_once(waits):
        return
    operations = {wait.operation for wait in waits}
    inside = {name: [wait for wait in waits if wait.group == name] for name in sorted({w.group for w in waits})}
    of_all = {name for name in inside if name in facts.groups and facts.groups[name].description == "default_pg"}
    apart = len(inside) > 1 and all(len(there) == 1 or name in of_all for name, there in inside.items())
    sending, receiving = operations <= {"send", "isend"}, operations <= {"recv", "irecv"}
    if not sending and not receiving and not (apart and (of_all or _is_whole_job(facts, ranks))):
        return
    where, other_where = _places(facts, ranks)
    firsts = [there[0] for there in inside.values()] if len(inside) > 1 else list(waits)
    yield make_signal(
        Grade.ORDER,
        tell("ranks-send" if sending else "ranks-receive" if receiving else "groups-apart", ranks=ranks),
        where=where,
        waiter_where=other_where,
        whole=facts.world_size in ((None, len(ranks)) if sending or receiving else (len(ranks),)),
        ranks=ranks,
        phase=Phase.COMMUNICATION,
        calls=tuple(
            Call(ranks=(w.rank,), operation=w.operation, position=w.position) for w in waits if w.rank is not None
        ),
        because=(
            (tell("receive-needs-send" if receiving else "send-needs-receive"),)
            if sending or receiving
            else tuple(_gave_up(facts, name, there) for name, there in inside.items())
        ),
        evidence=tuple(wait.evidence for wait in firsts[:4]),
        remedies=(remedy(_PAIR_SENDS if sending or receiving else "use-same-group-order"),),
    )


def _gave_up(facts: Facts, group: str, waits: list[LogWait]) -> Text:
    ranks = tuple(wait.rank for wait in waits if wait.rank is not None)
    return tell("gave-up-in", ranks=ranks, group=group_label(facts, group), operation=waits[0].operation)


def _is_whole_job(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """As its size is told, or as many processes as torchrun had here."""
    if facts.world_size is not None:
        return facts.world_size == len(ranks)
    return len({event.values.get("pid") for event in events_of_processes(facts)}) == len(ranks)


def _at_once(waits: tuple[LogWait, ...]) -> bool:
    """All were in their calls at one time, as far as their lines tell."""
    began = [wait.since_s for wait in waits if wait.since_s is not None]
    ended = [wait.ended_s for wait in waits if wait.ended_s is not None]
    return len({wait.rank for wait in waits}) == len(waits) and (not began or max(began) < min(ended))


# ---------------------------------------------------------------------------------------------------
# an actor that cannot answer


def detect_actors(facts: Facts) -> Iterator[DetectorResult]:
    """A rank waits in `ray.get` for a method of an actor that is a rank too, and stands in a collective of both: it
    answers one call after the other. Likely at most: which object of the class is asked, no source tells.
    """
    for at, asked in laggards_doing(facts, ActorWait):
        stall = at.stall
        yield stall_signal(
            Grade.SOURCE,
            tell(
                "asks-through" if asked.through else "asks-actor",
                ranks=stall.laggards,
                through=asked.through,
                method=asked.method,
            ),
            facts,
            stall,
            whole=False,
            phase=Phase.COMMUNICATION,
            because=(
                *waiters_line(stall),
                tell("actor-busy", busy=asked.busy, inside=asked.inside, actor=asked.actor, method=asked.method),
            ),
            remedies=(remedy("avoid-circular-actor-call", method=asked.method),),
        )


# ---------------------------------------------------------------------------------------------------
# a lock file


def detect_locks(facts: Facts) -> Iterator[DetectorResult]:
    """A rank waits for a lock file that another one holds, which waits for it in a collective: `with
    FileLock("results.json.lock"): worst = all_reduce(loss)`. Not whole where they may wait for another lock as well.
    """
    for at, found in laggards_doing(facts, FileLockCycle):
        stall, behind = at.stall, found.behind
        ranks = tuple(sorted((*stall.laggards, found.holder)))
        held = behind[1] if behind is not None else found.way_out[0] if found.way_out is not None else None
        wanted = place_of(facts, stall.laggards[0])
        yield stall_signal(
            Grade.RECORD,
            tell("lock-circle", ranks=stall.laggards, holder=found.holder, operation=operation_of(stall.call)),
            facts,
            stall,
            ranks=ranks,
            whole=found.only,
            phase=Phase.COMMUNICATION,
            because=(
                *waiters_line(stall),
                tell("locked-by", path=found.lock.path, pid=found.lock.pid, holder=found.holder),
                *_took_it(found),
            ),
            remedies=(*_free_it(found), remedy("avoid-collective-under-lock")),
            where=held or wanted,
            waiter_where=wanted if held is not None else place_of(facts, found.holder),
        )


def _free_it(found: FileLockCycle) -> Iterator[Remedy]:
    if found.way_out is not None:
        where, freed = found.way_out
        yield remedy("free-lock-on-every-path", function=where.function, line=where.line, freed=freed)


def _took_it(found: FileLockCycle) -> Iterator[Text]:
    if found.behind is not None:
        taken, where = found.behind
        yield tell("took-it", holder=found.holder, taken=taken, line=where.line)
    elif found.way_out is not None:
        where, freed = found.way_out
        yield tell("left-with-it", holder=found.holder, function=where.function, line=where.line, freed=freed)
