"""How far each rank has come, from what watchdogs print.

A timeout line names the position and operation; the status line beside it the last enqueued and completed. Only the
first attempt counts: later ones echo it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unhang.evidence.items import LogEvent, Signature
from unhang.facts.collective_operations import canonical_operation, ranks_by_sizes
from unhang.facts.model import GroupFacts, GroupProgress, PendingCall
from unhang.findings import Evidence
from unhang.knowledge.thresholds import whole_threshold

TIMEOUTS = ("wd.timeout", "wd.async")
STATUSES = ("wd.fail", "wd.timeout_at", "wd.exc_at", "wd.status", "dump.recv", "dump.local")
# What a watchdog prints when it ends its process: that rank had a call of its own that failed or timed out.
WENT_DOWN = ("wd.some", "wd.down", "wd.term")
DEFAULT_GROUP = "0"
# A stream takes about a thousand launches before the next one waits: no rank is further ahead of its partners.
FAR_APART = whole_threshold("progress_from_logs.far_apart")


def add_progress_from_logs(
    groups: Mapping[str, GroupFacts],
    events: Iterable[LogEvent],
    world: tuple[int, ...],
    known: Iterable[int],
    by_number: frozenset[int] = frozenset(),
) -> dict[str, GroupFacts]:
    """``groups`` with what logs tell of ranks without a dump (``known`` ranks have one, which says more).

    Of ranks ``by_number`` nothing was read but that they must exist: they count only where all that were heard wait at
    one position. Else who is behind is among those.
    """
    skip = set(known)
    told: dict[tuple[str, int], list[LogEvent]] = defaultdict(list)
    descriptions: dict[str, str] = {}
    first = _first_attempt(events)
    groups_told = groups_by_position(first)
    for event in first:
        rank = _rank_of(event)
        if rank is None or rank in skip or event.kind not in (*TIMEOUTS, *STATUSES):
            continue
        named = event.values.get("group") or event.values.get("group_id")
        name = (None if named else groups_told.get((rank, event.values.get("position")))) or _group_of(event)
        told[name, rank].append(event)
        descriptions.setdefault(name, str(event.values.get("group_description", "")))
    added: dict[str, dict[int, GroupProgress]] = defaultdict(dict)
    spoke: dict[str, set[int]] = defaultdict(set)
    for (name, rank), lines in sorted(told.items()):
        spoke[name].add(rank)
        progress = _progress(name, rank, lines)
        if progress is not None:
            added[name][rank] = progress
    # They gave up as well, in a line that does not tell where: nobody waits for them more than they do.
    went_down = {event.rank for event in first if event.kind in WENT_DOWN} if len(spoke) == 1 else set()
    changed = dict(groups)
    for name, ranks in spoke.items():
        group = groups.get(name) or _new_group(name, descriptions.get(name, ""), world)
        as_large = _holds_everybody(added[name].values(), world)
        members = ranks.union(group.members, world if as_large else ())
        if members - by_number != ranks or len({p.pending.position for p in added[name].values() if p.pending}) > 1:
            members -= by_number
        are_known = group.members_known or as_large
        group = replace(group, members=tuple(sorted(members)), members_known=are_known)
        group = group.with_progress({**group.progress, **added[name]})
        if _mixes_groups(group):
            group = group.with_progress({})
        changed[name] = replace(group, silent=tuple(rank for rank in group.silent if rank not in went_down))
    return changed


def _holds_everybody(progress: Iterable[GroupProgress], world: Sequence[int]) -> bool:
    """The sizes of a call tell that as many ranks share it as the job has."""
    calls = (one.pending for one in progress if one.pending is not None)
    sizes = {ranks_by_sizes(call.operation, call.elements, call.output_elements) for call in calls} - {None}
    return sizes == {len(world)}


def _mixes_groups(group: GroupFacts) -> bool:
    """Old lines name no group: positions this far apart cannot be of one, since nobody passes a collective alone."""
    positions = [p.pending.position for p in group.progress.values() if p.pending is not None and p.pending.position]
    only_logs = all(p.source_kind == "log" for p in group.progress.values())
    return group.is_default and only_logs and bool(positions) and max(positions) - min(positions) > FAR_APART


def groups_by_position(events: Iterable[LogEvent]) -> dict[tuple[int, Any], str]:
    """The group in which a rank waits at a position, from the line that follows its timeout.

    The timeout's own line names no group since torch 2.4; without the other line a call of a sub-group would look like
    one of the default group. Positions that a rank has in several groups tell nothing.
    """
    told: dict[tuple[int, Any], set[str]] = defaultdict(set)
    for event in events:
        position = event.values.get("position")
        if event.kind == "wd.fail" and event.rank is not None and isinstance(position, int):
            told[event.rank, position].add(_group_of(event))
    return {place: next(iter(names)) for place, names in told.items() if len(names) == 1}


def _first_attempt(events: Iterable[LogEvent]) -> list[LogEvent]:
    ordered = list(events)
    first = min((e.attempt for e in ordered if e.kind in TIMEOUTS), default=0)
    return [e for e in ordered if e.attempt == first]


def _rank_of(event: LogEvent) -> int | None:
    if event.rank is not None:
        return event.rank
    rank = event.values.get("group_rank")
    return rank if isinstance(rank, int) and _group_of(event) == DEFAULT_GROUP else None


def _group_of(event: LogEvent) -> str:
    name = event.values.get("group") or event.values.get("group_id") or DEFAULT_GROUP
    if event.values.get("group_description") == "default_pg":
        return DEFAULT_GROUP
    return str(name)


def _new_group(name: str, description: str, world: tuple[int, ...]) -> GroupFacts:
    is_default = name == DEFAULT_GROUP
    return GroupFacts(
        name=name,
        description=description or ("default_pg" if is_default else ""),
        members=world if is_default else (),
        members_known=is_default,
        is_default=is_default,
    )


def _progress(name: str, rank: int, lines: list[LogEvent]) -> GroupProgress | None:
    timeout = next((e for e in lines if e.kind in TIMEOUTS and "position" in e.values), None)
    status = next((e for e in lines if "last_enqueued" in e.values), None)
    if timeout is None and status is None:
        return None
    numbers: Mapping[str, Any] = status.values if status is not None else {}
    position = timeout.values["position"] if timeout is not None else numbers.get("position")
    enqueued = numbers.get("last_enqueued", position)
    completed = numbers.get("last_completed", position - 1 if position is not None else -1)
    call = _call(name, rank, timeout) if timeout is not None else None
    if position is not None:
        enqueued = max(enqueued, position)
        completed = min(completed, position - 1)
    return GroupProgress(rank, enqueued, completed, call, "log")


def _call(name: str, rank: int, event: LogEvent) -> PendingCall:
    values = event.values
    elements, gathered = values.get("elements_in"), values.get("elements_out")
    operation = canonical_operation(str(values.get("operation", "")))
    elapsed = values.get("elapsed_ms")
    signature = None
    if isinstance(elements, int) and isinstance(gathered, int):
        signature = Signature(operation, None, ((elements,),), ((gathered,),), (), ())
    return PendingCall(
        group=name,
        position=values.get("position"),
        signature=signature,
        operation=operation,
        elements=elements if isinstance(elements, int) else None,
        since_s=event.time_s - elapsed / 1000 if event.time_s is not None and isinstance(elapsed, int) else None,
        timeout_ms=values.get("limit_ms"),
        evidence=Evidence(event.source, event.text, rank),
        output_elements=gathered if isinstance(gathered, int) else None,
        since_form=event.time_form,
    )
