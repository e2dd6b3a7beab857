"""What the page draws over time. Ranks × positions of each group near the stall, as compact data for its script: a cell
up to ``done`` is finished, up to ``entered`` is entered and not finished, beyond it was never entered; only the
positions near the stall and near the laggards are listed. And what the cards of each node did, as lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from unhang.evidence.items import RecorderEntries, Signature
from unhang.facts.model import Facts, GroupFacts, GroupProgress, RankState
from unhang.report.html.late_ranks import clock, group_label
from unhang.report.labels import short_ranks
from unhang.report.localizer import Localizer
from unhang.report.machine_quantities import lane_title, measured
from unhang.wire.documents.machine_series import MachineRow

BEFORE, AFTER, NEAR_LAGGARD, MAX_COLUMNS, MAX_GROUPS, MAX_LAGGARDS = 14, 5, 2, 44, 200, 4
_P2P = ("send", "recv", "coalesced")


def timelines(facts: Facts, late: frozenset[int], localizer: Localizer) -> list[dict[str, Any]]:
    """One entry a group, the group of the stall first, at most 200; see :func:`_timeline` for its keys."""
    leading = {stall.group: number for number, stall in reversed(list(enumerate(facts.stalls)))}
    groups = [group for group in facts.groups.values() if group.progress or group.silent]

    def order(group: GroupFacts) -> tuple[Any, ...]:
        first = leading.get(group.name, len(leading))
        return first, not _stalled(group), not group.is_default, -len(group.members), group.name

    groups = sorted(groups, key=order)[:MAX_GROUPS]
    described = Counter(group_label(group) for group in groups)
    return [_timeline(facts, group, described, late, localizer) for group in groups]


def stall_position(group: GroupFacts) -> int | None:
    """The position most waiters stand at, the lowest of equals; P2P positions only where there is nothing else."""
    pending = [p.pending for p in group.progress.values() if p.pending and p.pending.position is not None]
    collectives = [call for call in pending if call.operation not in _P2P]
    counted = Counter(call.position for call in collectives or pending if call.position is not None)
    if counted:
        return max(counted.items(), key=lambda item: (item[1], -item[0]))[0]
    return max((p.enqueued for p in group.progress.values() if p.enqueued >= 0), default=None)


def _stalled(group: GroupFacts) -> bool:
    return any(progress.pending is not None for progress in group.progress.values())


def _timeline(
    facts: Facts, group: GroupFacts, described: Counter[str], late: frozenset[int], localizer: Localizer
) -> dict[str, Any]:
    """``rows`` are ``[rank, entered, done, state, text index]``; ``odd`` is rank → position → call that differs."""
    stall = stall_position(group)
    spans = {rank: _span(progress) for rank, progress in group.progress.items()}
    columns = _columns(spans.values(), stall)
    usual, odd = _calls(group, columns)
    texts: dict[str, int] = {}
    rows = []
    for rank, progress in sorted(group.progress.items()):
        text = texts.setdefault(_activity_text(facts, rank, progress, localizer), len(texts))
        rows.append([rank, *spans[rank], _state(facts, rank, late), text])
    name = group_label(group)
    members = f" · {short_ranks(group.members, 24)}" if described[name] > 1 else ""
    return {
        "name": localizer.line(name + members, 80),
        "stalled": _stalled(group),
        "stall": stall,
        "columns": columns,
        "calls": {str(position): localizer.line(label, 120) for position, label in usual.items()},
        "odd": {str(rank): _localized(calls, localizer) for rank, calls in odd.items()},
        "rows": rows,
        "silent": sorted(group.silent),
        "texts": [localizer.line(text, 80) for text in texts],
    }


def _span(progress: GroupProgress) -> tuple[int, int]:
    """(entered, done). A rank that only does P2P here has no collective positions, so its pending call stands in."""
    call = progress.pending
    if progress.enqueued < 0 and call is not None and call.position is not None:
        return call.position, call.position - 1
    return progress.enqueued, progress.completed


def _localized(calls: dict[int, str], localizer: Localizer) -> dict[str, str]:
    return {str(position): localizer.line(label, 120) for position, label in calls.items()}


def _columns(spans: Iterable[tuple[int, int]], stall: int | None) -> list[int]:
    if stall is None:
        return []
    known = list(spans)
    furthest = max((entered for entered, _ in known), default=stall)
    wanted = set(range(max(0, stall - BEFORE), min(max(furthest, stall), stall + AFTER) + 1))
    behind = sorted({done for _, done in known if 0 <= done < stall - BEFORE})
    for position in behind[:MAX_LAGGARDS]:
        wanted |= set(range(max(0, position - NEAR_LAGGARD), position + NEAR_LAGGARD + 1))
    return sorted(wanted)[-MAX_COLUMNS:]


def _state(facts: Facts, rank: int, late: frozenset[int]) -> str:
    if rank in late:
        return RankState.LAGGARD.value
    known = facts.ranks.get(rank)
    if known is None:
        return RankState.UNKNOWN.value
    return RankState.WAITING.value if known.state is RankState.LAGGARD else known.state.value


def _activity_text(facts: Facts, rank: int, progress: GroupProgress, localizer: Localizer) -> str:
    known = facts.ranks.get(rank)
    activity = known.activity if known is not None else None
    call = progress.pending
    where = activity.where if activity is not None else None
    if where is None and call is not None:
        where = call.where
    what = call.operation if call is not None else (activity.what if activity is not None else "")
    place = localizer.place(where).rsplit("/", 1)[-1] if where is not None else ""
    return " · ".join(part for part in (what, place) if part)


def _calls(group: GroupFacts, columns: list[int]) -> tuple[dict[int, str], dict[int, dict[int, str]]]:
    """The usual call at each position, and by rank the calls that differ from it."""
    votes: dict[int, Counter[str]] = {}
    by_rank: dict[int, dict[int, str]] = {}
    wanted = np.asarray(columns, np.int64)
    for rank, entries in sorted(group.entries.items()):
        by_rank[rank] = _calls_of(entries, wanted)
        for position, label in by_rank[rank].items():
            votes.setdefault(position, Counter())[label] += 1
    if not votes:
        for progress in group.progress.values():
            if progress.pending is not None and progress.pending.position is not None:
                votes.setdefault(progress.pending.position, Counter())[progress.pending.operation] += 1
    usual = {position: min(c.items(), key=lambda item: (-item[1], item[0]))[0] for position, c in votes.items()}
    odd = {rank: {p: label for p, label in calls.items() if label != usual[p]} for rank, calls in by_rank.items()}
    return usual, {rank: calls for rank, calls in odd.items() if calls}


def _calls_of(entries: RecorderEntries, wanted: Any) -> dict[int, str]:
    if not len(wanted) or len(entries) == 0:
        return {}
    return {
        int(entries.position[n]): call_label(entries.signatures[int(entries.signature[n])])
        for n in np.nonzero(np.isin(entries.position, wanted))[0].tolist()
    }


def call_label(signature: Signature) -> str:
    """``all_reduce · 25,600,000 × bfloat16``."""
    dtype = signature.input_dtypes[0] if signature.input_dtypes else ""
    size = f" · {signature.input_elements:,}" if signature.input_sizes else ""
    return f"{signature.operation}{size}{f' × {dtype}' if dtype and size else ''}"


QUANTITIES = ("util", "mem_used", "sm_mhz", "pcie_rx_bps", "pcie_tx_bps", "nvlink_rx_bps", "nvlink_tx_bps")
WIDTH, HEIGHT, MAX_NODES, MAX_POINTS = 320, 60, 4, 300


def card_charts(facts: Facts, late: frozenset[int], localizer: Localizer) -> list[dict[str, Any]]:
    """One entry a node, those of ``late`` ranks first; see :func:`_node` for its keys."""
    nodes: dict[str, list[MachineRow]] = {}
    for row in sorted((row for one in facts.machines for row in one.rows if row.cards), key=lambda row: row.t_s):
        nodes.setdefault(row.node, []).append(row)
    since_s = next((one.stalled_since_s for one in facts.manifests if one.stalled_since_s is not None), None)
    found = [_node(rows, late, since_s, localizer) for rows in nodes.values() if len(rows) > 1]
    return sorted(found, key=lambda node: not node["late"])[:MAX_NODES]


def _node(rows: list[MachineRow], late: frozenset[int], since_s: float | None, localizer: Localizer) -> dict[str, Any]:
    """Its name, first and last time, whether a late rank is there, where the stall begins (None: not shown), charts."""
    first_s, last_s = rows[0].t_s, rows[-1].t_s
    scale = WIDTH / (last_s - first_s or 1)
    uuids = {uuid for row in rows for rank in row.ranks if rank.rank in late for uuid in rank.cards}
    of_late = {card.index for row in rows for card in row.cards if card.uuid in uuids}
    stall = None if since_s is None or since_s > last_s else max(0, round((since_s - first_s) * scale))
    shown = rows[:: len(rows) // MAX_POINTS + 1]
    charts = [chart for what in QUANTITIES if (chart := _chart(shown, what, scale, of_late, localizer))]
    times = {"first": clock(first_s), "last": clock(last_s), "stall": stall}
    return {"name": localizer.line(rows[0].node), **times, "late": bool(of_late), "charts": charts}


def _chart(
    rows: list[MachineRow], what: str, scale: float, late: set[int], localizer: Localizer
) -> dict[str, Any] | None:
    """Its title, lowest and highest value, and lines (card, is of a late rank, points), the late ones on top; None
    where nobody recorded it."""
    told = ((card.index, row.t_s, getattr(card, what)) for row in rows for card in row.cards)
    seen = [one for one in told if one[2] is not None]
    if not seen:
        return None
    cards, values = {card for card, _, _ in seen}, [value for _, _, value in seen]
    title, unit, _ = lane_title(f"card {short_ranks(cards)} {what}")
    down = (HEIGHT - 6) / (100 if unit == "%" else max(values) or 1)
    lines = []
    for card in sorted(cards, key=lambda card: (card in late, card)):
        points = [((at_s - rows[0].t_s) * scale, HEIGHT - 3 - value * down) for one, at_s, value in seen if one == card]
        lines.append((card, card in late, " ".join(f"{x:.1f},{y:.1f}" for x, y in points)))
    ends = dict.fromkeys((measured(min(values), unit), measured(max(values), unit)))
    return {"title": localizer.say(title), "range": " – ".join(ends), "lines": lines}
