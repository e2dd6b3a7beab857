"""What stacks add to the dumps: confirm or find who is inside a collective.

Waiting is pending work in a group that has stopped moving. Where dumps exist the stack only settles what Gloo's
status leaves open; without any dump the stacks are all there is, and positions stay unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from unhang.evidence.items import Frame, Signature, SourceFile
from unhang.facts.alignment.group_table import recorded_call, revise_progress
from unhang.facts.collective_operations import POINT_TO_POINT, canonical_operation, may_be_recorded_as
from unhang.facts.endings.crashes import is_collateral_exit
from unhang.facts.model import Activity, GroupFacts, GroupProgress, PendingCall, RankFacts
from unhang.facts.waiting.calls_in_source import groups_by_name, partner_on_line
from unhang.facts.waiting.guard_waits import in_guard
from unhang.findings import Phase, Where

_BACKWARD = ("_engine_run_backward",)
_WRAPPER = "torch/nn/parallel/distributed.py"
STACK_GROUP = "(group not recorded)"
"""Where the program's names tell several such groups apart, each is this with its name behind."""


def reconcile_with_stacks(
    groups: Mapping[str, GroupFacts],
    ranks: Mapping[int, RankFacts],
    world: tuple[int, ...],
    sources: Mapping[str, SourceFile],
) -> dict[str, GroupFacts]:
    """Add pending calls that only the stacks show; drop Gloo's that the stacks contradict."""
    settled: dict[str, dict[int, GroupProgress]] = defaultdict(dict)
    for rank, facts in sorted(ranks.items()):
        if facts.activity is None or facts.recording is None or facts.recording.backend != "gloo":
            continue
        for name, progress in (_settled_by_stack if facts.alive else _settled_by_traceback)(rank, facts, groups):
            settled[name][rank] = progress
    settled_groups = {
        name: replace(group, progress={**group.progress, **settled.get(name, {})}) for name, group in groups.items()
    }
    return {**settled_groups, **_groups_of_stacks(settled_groups, ranks, world, sources)}


def clear_gone_ranks(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> dict[str, GroupFacts]:
    """A rank whose stack moves between samples is not stuck in what it was in when its dump was taken, and a process
    that ended with exit code 0 waits for nothing, whatever its last dump said."""
    gone = {rank for rank, known in ranks.items() if known.moving or known.ended_well}
    return revise_progress(
        groups, lambda _, known: _finished(known) if known.pending is not None and known.rank in gone else known
    )


def _finished(progress: GroupProgress) -> GroupProgress:
    """With all finished that was entered."""
    return replace(progress, pending=None, completed=max(progress.completed, progress.enqueued))


def waiting_activity(facts: RankFacts) -> Activity | None:
    """What the rank waits in, whichever thread issues it: a collective call, the making of a group, or backward with
    its hooks; else None."""
    everything = [a for a in (facts.activity, *facts.threads) if a is not None]
    calls = [a for a in everything if in_collective(a) or is_creating_group(a) or in_guard(a)]
    backward = [a for a in everything if a.what == "backward"]
    return next(iter(calls or backward), None)


def in_collective(activity: Activity | None) -> bool:
    """The thread stands inside a collective call."""
    return activity is not None and activity.phase is Phase.COMMUNICATION and activity.operation is not None


GROUP_CREATION_CALLS = {
    "init-process-group": "init_process_group",
    "rendezvous": "init_process_group",
    "group-setup": "new_group",
}
"""Activities in which ranks meet at the store and wait for all others; recorded by nobody."""


def is_creating_group(activity: Activity | None) -> bool:
    """The thread makes a group: it returns when every other rank has come to make it too."""
    return activity is not None and activity.what in GROUP_CREATION_CALLS


_Settled = Iterator[tuple[str, GroupProgress]]
"""What the stack of one rank says of its progress in a group, by name, where that is something else."""


def _settled_by_stack(rank: int, facts: RankFacts, groups: Mapping[str, GroupFacts]) -> _Settled:
    mine = [g for _, g in sorted(groups.items()) if rank in g.progress]
    pending = [g for g in mine if g.pending(rank) is not None]
    activity = waiting_activity(facts)
    if activity is None or not in_collective(activity):
        for group in pending:
            if _is_at_last_call(group, rank, facts):
                if activity is not None:
                    yield group.name, _at_last_call(group, rank, facts)
            elif activity is None or is_creating_group(activity) or in_guard(activity):
                # Gloo counts a failed collective as open for ever; a rank that has left the call does not wait in it.
                yield group.name, _finished(group.progress[rank])
        return
    assert activity.operation is not None
    if activity.operation in POINT_TO_POINT:
        # Gloo counts sends and receives and records none: only the stack tells.
        yield from ((group.name, _finished(group.progress[rank])) for group in pending)
        return
    standing = [g for g in mine if _last_call_is(g, rank, activity)]
    if len(standing) == 1:
        yield standing[0].name, _at_last_call(standing[0], rank, facts)
        yield from ((group.name, _finished(group.progress[rank])) for group in pending if group is not standing[0])


def _settled_by_traceback(rank: int, facts: RankFacts, groups: Mapping[str, GroupFacts]) -> _Settled:
    """What it was in when it gave up is the call that its traceback stands in."""
    activity = waiting_activity(facts)
    for _, group in sorted(groups.items()):
        waits = group.pending(rank) is not None
        if waits and activity is not None and in_collective(activity) and _last_call_is(group, rank, activity):
            yield group.name, _at_last_call(group, rank, facts)


def _at_last_call(group: GroupFacts, rank: int, facts: RankFacts) -> GroupProgress:
    """The rank stands in the group's last recorded call: that is what it waits in, and not in one before it that
    Gloo's count, which lags, has open."""
    progress, entries, activity = group.progress[rank], group.entries[rank], waiting_activity(facts)
    assert facts.recording is not None
    assert activity is not None
    last = recorded_call(rank, group.name, entries, -1, facts.recording.source)
    open_ = progress.pending
    collective = in_collective(activity)
    if open_ is None or (collective and _is_stale(group, open_, last)) or _has_returned(open_, last, activity):
        return replace(progress, pending=last, completed=(last.position or 0) - 1)
    return progress


def _is_stale(group: GroupFacts, pending: PendingCall, last: PendingCall) -> bool:
    """Into the call that is open by the count all have come."""
    before, now = pending.position, last.position
    if before is None or now is None or before >= now or group.silent:
        return False
    return all(member.enqueued >= before for member in group.progress.values())


def _has_returned(pending: PendingCall, last: PendingCall, activity: Activity) -> bool:
    """The rank has left the backward, or the forward of a wrapper, that made the call: both end when it is done."""
    before, now = pending.position, last.position
    if before is None or now is None or before >= now or pending.where is None:
        return False
    in_pass = any(f.function in _BACKWARD or f.file.endswith(_WRAPPER) for f in pending.stack)
    return in_pass and _spot(pending.where) not in map(_spot, activity.frames)


def _is_at_last_call(group: GroupFacts, rank: int, facts: RankFacts) -> bool:
    """All Python frames, the library's too, are those of the group's last recorded call: it is still inside, in C++
    (a wrapper's forward, an optimizer), although no frame is named after a collective."""
    entries, activity = group.entries.get(rank), facts.activity
    if entries is None or not len(entries) or activity is None or int(entries.stack[-1]) < 0:
        return False
    recorded = [_spot(f) for f in entries.stacks[int(entries.stack[-1])] if not f.native]
    seen = [_spot(f) for f in activity.frames if not f.native]
    return len(recorded) > 1 and recorded[:_ALIKE] == seen[:_ALIKE]


_ALIKE = 8


def _spot(at: Frame | Where) -> tuple[str, int | None]:
    """A dump and a sampler may spell the folder in another way."""
    return (at.file.replace("\\", "/").rsplit("/", 1)[-1], at.line)


def _last_call_is(group: GroupFacts, rank: int, activity: Activity) -> bool:
    """The group's last recorded call is the one the stack stands in: same operation, same line."""
    entries = group.entries.get(rank)
    if entries is None or not len(entries):
        return False
    signature = entries.signatures[int(entries.signature[-1])]
    assert activity.operation is not None
    stack_index = int(entries.stack[-1])
    if stack_index < 0 or activity.where is None:
        return may_be_recorded_as(activity.operation, signature.operation)
    return _spot(activity.where) in map(_spot, entries.stacks[stack_index])


def _groups_of_stacks(
    groups: Mapping[str, GroupFacts],
    ranks: Mapping[int, RankFacts],
    world: tuple[int, ...],
    sources: Mapping[str, SourceFile],
) -> dict[str, GroupFacts]:
    """Ranks in a collective that no dump explains wait in a group of which only the stacks tell."""
    explained = {rank for group in groups.values() for rank in group.pending_calls}
    lost = {
        rank: activity
        for rank, facts in sorted(ranks.items())
        if rank not in explained and _shows_position(facts) and (activity := waiting_activity(facts)) is not None
        if not in_guard(activity)
    }
    surely = (in_collective(a) or is_creating_group(a) or is_in_backward(ranks[r], a) for r, a in lost.items())
    if not any(surely):
        return {}
    members = tuple(sorted(set(world) | set(ranks)))
    named = groups_by_name(lost, sources) or _exchanges_apart(lost)
    found = {}
    for name in sorted({named.get(rank, "") for rank in lost}):
        inside = {rank: activity for rank, activity in lost.items() if named.get(rank, "") == name}
        group = _group_from_stacks(name, members, inside, ranks, sources)
        # Who is explained waits in a group that a dump names; whether these wait for it too, that group's graph says.
        # Only where none of these is in that group, and they make one: that needs every rank of the job.
        needs_all = bool(inside) and all(GROUP_CREATION_CALLS.get(one.what) == "new_group" for one in inside.values())
        elsewhere = {rank for rank in explained if not needs_all or _waits_with(groups, rank, inside)}
        heard = {rank: progress for rank, progress in group.progress.items() if rank not in elsewhere}
        found[group.name] = replace(group, progress=heard)
    return found


_EXCHANGES = "send/recv"


def _exchanges_apart(lost: Mapping[int, Activity]) -> dict[int, str]:
    """Who sends or receives is in no collective, and the others wait for it there."""
    exchanging = {rank: _EXCHANGES for rank, activity in lost.items() if activity.operation in POINT_TO_POINT}
    return exchanging if len(exchanging) < len(lost) else {}


def _waits_with(groups: Mapping[str, GroupFacts], rank: int, others: Collection[int]) -> bool:
    waits_in = (g for g in groups.values() if g.pending(rank) is not None)
    return any(not set(others).isdisjoint(group.members) for group in waits_in)


def _group_from_stacks(
    name: str,
    members: tuple[int, ...],
    inside: Mapping[int, Activity],
    ranks: Mapping[int, RankFacts],
    sources: Mapping[str, SourceFile],
) -> GroupFacts:
    """``name``: as the program calls it; empty where all ranks without a record are taken for one group."""
    known_as = f"{STACK_GROUP} {name}" if name else STACK_GROUP
    progress = {}
    for rank in members:
        facts = ranks.get(rank)
        if facts is None or (facts.activity is None and (facts.alive or is_collateral_exit(facts))):
            continue
        activity = inside.get(rank)
        call = _call_from_stack(known_as, activity, facts, len(members), sources) if activity is not None else None
        progress[rank] = GroupProgress(rank, 1 if call else 0, 0, call, "stack")
    group = GroupFacts(known_as, name, members, members_known=False, is_default=not name)
    return group.with_progress(progress)


def is_in_backward(facts: RankFacts, activity: Activity) -> bool:
    """It sleeps in backward in every sample: that is a hook's all-reduce, since computing would use the processor."""
    return activity.what == "backward" and facts.moving is False and facts.process_state in ("S", "D")


def _shows_position(facts: RankFacts) -> bool:
    """Its stack says where it stands: it lives, or its traceback shows where it gave up and no dump can tell better."""
    if facts.process_state == "T":
        return False  # whatever call it stands in, it is not there to take part
    if facts.alive:
        return True
    unrecorded = facts.activity is not None and facts.activity.operation in _NEVER_RECORDED
    return facts.stack is None and (facts.recording is None or unrecorded)


_NEVER_RECORDED = {"monitored_barrier"}


def _call_from_stack(
    group: str, activity: Activity, known: RankFacts, world_size: int, sources: Mapping[str, SourceFile]
) -> PendingCall:
    # Backward waits in the gradients' all-reduce, issued by hooks that no Python frame shows.
    operation = GROUP_CREATION_CALLS.get(activity.what) or canonical_operation(activity.operation or "all_reduce")
    partner = known.process.partner if operation in POINT_TO_POINT else None
    if partner not in range(world_size):
        partner = partner_on_line(activity.where, operation, known.rank, world_size, sources)
    return PendingCall(
        group=group,
        position=None if operation in POINT_TO_POINT else 1,
        signature=Signature(operation, partner, (), (), (), ()) if partner is not None else None,
        operation=operation,
        evidence=activity.evidence,
        where=activity.where,
        stack=activity.frames,
    )
