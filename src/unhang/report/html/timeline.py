"""Ranks × positions of each group near the stall, as compact data for the page.

A cell is derived in the page: a position up to ``done`` is finished, up to ``entered`` is entered and not finished,
beyond it was never entered. Only the positions near the stall and near the laggards are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from unhang.evidence.items import Entries, Signature
from unhang.facts.model import Facts, GroupFacts, GroupProgress, RankState
from unhang.report.voice import Voice

BEFORE, AFTER, NEAR_LAGGARD, MOST_COLUMNS, MOST_GROUPS = 14, 5, 2, 44, 200


def timelines(facts: Facts, voice: Voice) -> list[dict[str, Any]]:
    """One entry a group, stalled groups first, at most 200; see :func:`_timeline` for its keys."""
    groups = [group for group in facts.groups.values() if group.progress or group.silent]
    groups.sort(key=lambda group: (not _stalled(group), not group.is_default, -len(group.members), group.name))
    return [_timeline(facts, group, voice) for group in groups[:MOST_GROUPS]]


def _stalled(group: GroupFacts) -> bool:
    return any(progress.pending is not None for progress in group.progress.values())


def _timeline(facts: Facts, group: GroupFacts, voice: Voice) -> dict[str, Any]:
    """``rows`` are ``[rank, entered, done, state, text index]``; ``odd`` is rank → position → call that differs."""
    stall = stall_position(group)
    columns = _columns(group, stall, laggards(facts))
    usual, odd = _calls(group, columns)
    texts: dict[str, int] = {}
    rows = [
        [
            rank,
            p.enqueued,
            p.completed,
            _state(facts, rank),
            texts.setdefault(_doing(facts, rank, p, voice), len(texts)),
        ]
        for rank, p in sorted(group.progress.items())
    ]
    return {
        "name": voice.line(group.description or group.name, 80),
        "key": voice.line(group.name, 80),
        "stalled": _stalled(group),
        "stall": stall,
        "columns": columns,
        "calls": {str(position): voice.line(label, 120) for position, label in usual.items()},
        "odd": {
            str(rank): {str(p): voice.line(label, 120) for p, label in calls.items()} for rank, calls in odd.items()
        },
        "rows": rows,
        "silent": sorted(group.silent),
        "texts": list(texts),
    }


def laggards(facts: Facts) -> frozenset[int]:
    """Ranks others wait for."""
    named = {rank for rank, known in facts.ranks.items() if known.state is RankState.LAGGARD}
    return frozenset(named | set(facts.graph.roots))


def stall_position(group: GroupFacts) -> int | None:
    """The position most waiters stand at; the lowest of equals."""
    pending = Counter(
        p.pending.position for p in group.progress.values() if p.pending and p.pending.position is not None
    )
    if pending:
        return max(pending.items(), key=lambda item: (item[1], -item[0]))[0]
    return max((p.enqueued for p in group.progress.values() if p.enqueued >= 0), default=None)


def _columns(group: GroupFacts, stall: int | None, late: Iterable[int]) -> list[int]:
    if stall is None:
        return []
    furthest = max((p.enqueued for p in group.progress.values()), default=stall)
    wanted = set(range(max(0, stall - BEFORE), min(max(furthest, stall), stall + AFTER) + 1))
    behind = {group.progress[rank].completed for rank in late if rank in group.progress}
    behind |= {p.completed for p in group.progress.values() if p.completed < stall - BEFORE}
    for position in sorted(behind)[:4]:
        wanted |= set(range(max(0, position - NEAR_LAGGARD), position + NEAR_LAGGARD + 1))
    return sorted(wanted)[-MOST_COLUMNS:]


def _state(facts: Facts, rank: int) -> str:
    known = facts.ranks.get(rank)
    if known is None:
        return RankState.UNKNOWN.value
    return RankState.LAGGARD.value if rank in facts.graph.roots else known.state.value


def _doing(facts: Facts, rank: int, progress: GroupProgress, voice: Voice) -> str:
    known = facts.ranks.get(rank)
    activity = known.activity if known is not None else None
    where = activity.where if activity is not None else None
    if where is None and progress.pending is not None:
        where = progress.pending.where
    what = (
        progress.pending.operation if progress.pending is not None else (activity.what if activity is not None else "")
    )
    place = voice.place(where).rsplit("/", 1)[-1] if where is not None else ""
    return voice.line(" · ".join(part for part in (what, place) if part), 80)


def _calls(group: GroupFacts, columns: list[int]) -> tuple[dict[int, str], dict[int, dict[int, str]]]:
    """The usual call at each position, and by rank the calls that differ from it."""
    votes: dict[int, Counter[str]] = {}
    by_rank: dict[int, dict[int, str]] = {}
    for rank, entries in sorted(group.entries.items()):
        by_rank[rank] = _calls_of(entries, columns)
        for position, label in by_rank[rank].items():
            votes.setdefault(position, Counter())[label] += 1
    for progress in group.progress.values():
        if progress.pending is not None and progress.pending.position is not None and not group.entries:
            votes.setdefault(progress.pending.position, Counter())[progress.pending.operation] += 1
    usual = {position: min(c.items(), key=lambda item: (-item[1], item[0]))[0] for position, c in votes.items()}
    odd = {rank: {p: label for p, label in calls.items() if label != usual[p]} for rank, calls in by_rank.items()}
    return usual, {rank: calls for rank, calls in odd.items() if calls}


def _calls_of(entries: Entries, columns: list[int]) -> dict[int, str]:
    if not columns or len(entries) == 0:
        return {}
    near = np.nonzero((entries.position >= columns[0]) & (entries.position <= columns[-1]))[0]
    wanted = set(columns)
    return {
        int(entries.position[n]): call_label(entries.signatures[int(entries.signature[n])])
        for n in near[-2048:]
        if int(entries.position[n]) in wanted
    }


def call_label(signature: Signature) -> str:
    """``all_reduce · 25,600,000 × bfloat16``."""
    dtype = signature.input_dtypes[0] if signature.input_dtypes else ""
    size = f" · {signature.input_elements:,}" if signature.input_sizes else ""
    return f"{signature.operation}{size}{f' × {dtype}' if dtype and size else ''}"
