"""The wait-for graph with equal ranks drawn as one box, laid out in columns: waiters left, laggards right."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from unhang.facts.model import Facts, PendingCall, RankState, WaitEdge
from unhang.findings import say
from unhang.report import labels
from unhang.report.html.standing import group_label, pending_calls
from unhang.report.voice import Voice

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 222, 58, 150, 30, 10
MOST_EXACT, MOST_BOXES, MOST_EDGES, MOST_ROUNDS = 12, 40, 2_000_000, 12

_Key = tuple[frozenset[int], frozenset[tuple[int, str, int | None, str]]]


@dataclass(frozen=True, slots=True)
class Box:
    """Ranks that wait for the same and are waited for by the same; ``x``, ``y`` is its upper left corner."""

    ranks: tuple[int, ...]
    title: str
    note: str
    laggard: bool
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a waiter's box to an awaited box. ``path`` is SVG path data; the label stands at ``x``, ``y``."""

    waiter: int
    awaited: int
    label: str
    about: str
    path: str
    x: float
    y: float
    level: bool
    """A level arrow's label stands over its middle, a bent one's begins beside its start."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything the template needs; ``left_out`` counts boxes beyond the 40 that are drawn."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float
    box_width: int
    box_height: int
    left_out: int
    cycle: bool


def wait_graph(facts: Facts, late: frozenset[int], voice: Voice) -> Drawing:
    """The drawing of ``facts.graph``; empty when nobody waits."""
    edges = facts.graph.edges[:MOST_EDGES]
    members = _equal(edges)
    if len(members) > MOST_EXACT:
        members = _alike(edges, late)
    members.sort(key=lambda ranks: (not set(ranks) & late, -len(ranks), ranks[0]))
    left_out = max(0, len(members) - MOST_BOXES)
    members = members[:MOST_BOXES]
    box_of = {rank: number for number, ranks in enumerate(members) for rank in ranks}
    names = {name: group_label(group) for name, group in facts.groups.items()}
    links = _links(edges, box_of, names)
    columns = _columns(len(members), links)
    places = _ring(len(members)) if columns is None else _layers(columns)
    pending = pending_calls(facts)
    lead = next((names.get(stall.group, stall.group) for stall in facts.stalls), "")
    boxes = tuple(_box(facts, ranks, place, late, pending, voice) for ranks, place in zip(members, places, strict=True))
    arrows = tuple(
        _arrow(boxes, waiter, awaited, _leading_first(named, lead), voice)
        for (waiter, awaited), named in sorted(links.items())
    )
    looped = any(waiter == awaited for waiter, awaited in links)
    width = max((box.x for box in boxes), default=0) + BOX_WIDTH + (150 if looped else MARGIN)
    height = max((box.y for box in boxes), default=0) + BOX_HEIGHT + MARGIN
    return Drawing(boxes, arrows, width, height, BOX_WIDTH, BOX_HEIGHT, left_out, columns is None)


def _leading_first(named: set[str], lead: str) -> list[str]:
    return sorted(named, key=lambda name: (name.rpartition(" #")[0] != lead, name))


def _alike(edges: tuple[WaitEdge, ...], late: frozenset[int]) -> list[tuple[int, ...]]:
    """Ranks that wait in the same way for ranks that stand alike: a pipeline stage, the replicas of a shard."""
    waits: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    for edge in edges:
        waits[edge.waiter].add((edge.awaited, edge.reason))
        waits[edge.awaited] |= set()
    kind: dict[int, object] = {rank: rank in late for rank in waits}
    count = len(set(kind.values()))
    for _ in range(MOST_ROUNDS):
        seen = {rank: (kind[rank], frozenset((kind[other], why) for other, why in waits[rank])) for rank in waits}
        numbers = {signature: number for number, signature in enumerate(dict.fromkeys(seen.values()))}
        kind = {rank: numbers[seen[rank]] for rank in waits}
        if len(numbers) == count:
            break
        count = len(numbers)
    same: defaultdict[object, list[int]] = defaultdict(list)
    for rank in sorted(waits):
        same[kind[rank]].append(rank)
    return [tuple(ranks) for ranks in same.values()]


def _equal(edges: tuple[WaitEdge, ...]) -> list[tuple[int, ...]]:
    """Ranks that wait for the same ranks and are waited for by the same."""
    waits: defaultdict[int, set[tuple[int, str, int | None, str]]] = defaultdict(set)
    awaited_by: defaultdict[int, set[int]] = defaultdict(set)
    for edge in edges:
        waits[edge.waiter].add((edge.awaited, edge.group, edge.position, edge.reason))
        awaited_by[edge.awaited].add(edge.waiter)
    same: defaultdict[_Key, list[int]] = defaultdict(list)
    for rank in sorted(set(waits) | set(awaited_by)):
        same[frozenset(awaited_by[rank]), frozenset(waits[rank])].append(rank)
    return [tuple(ranks) for ranks in same.values()]


def _links(
    edges: tuple[WaitEdge, ...], box_of: dict[int, int], named: dict[str, str]
) -> dict[tuple[int, int], set[str]]:
    links: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for edge in edges:
        waiter, awaited = box_of.get(edge.waiter), box_of.get(edge.awaited)
        if waiter is not None and awaited is not None and len(links[waiter, awaited]) < 6:
            position = "" if edge.position is None else f" #{edge.position}"
            links[waiter, awaited].add(f"{named.get(edge.group, edge.group)}{position}")
    return dict(links)


def _columns(count: int, links: dict[tuple[int, int], set[str]]) -> list[int] | None:
    """Distance of each box from those that wait for nobody; None when there is none (a cycle)."""
    awaited_of: dict[int, set[int]] = {number: set() for number in range(count)}
    for waiter, awaited in links:
        if waiter != awaited:
            awaited_of[waiter].add(awaited)
    depth = {number: 0 for number in range(count) if not awaited_of[number]}
    if count and not depth:
        return None
    for _ in range(count):
        grown = {
            number: 1 + max(depth[other] for other in others if other in depth)
            for number, others in awaited_of.items()
            if number not in depth and others & depth.keys()
        }
        if not grown:
            break
        depth |= grown
    return [depth.get(number, 0) for number in range(count)]


def _layers(columns: list[int]) -> list[tuple[float, float]]:
    deepest = max(columns, default=0)
    tallest = max((columns.count(column) for column in set(columns)), default=1)
    full = tallest * BOX_HEIGHT + (tallest - 1) * GAP_Y
    used: defaultdict[int, int] = defaultdict(int)
    places = []
    for column in columns:
        count = columns.count(column)
        top = MARGIN + (full - count * BOX_HEIGHT - (count - 1) * GAP_Y) / 2
        x = MARGIN + (deepest - column) * (BOX_WIDTH + GAP_X)
        places.append((float(x), top + used[column] * (BOX_HEIGHT + GAP_Y)))
        used[column] += 1
    return places


def _ring(count: int) -> list[tuple[float, float]]:
    across = max(BOX_WIDTH * 0.9, count * 46.0) + 40
    down = max(70.0, count * 26.0)
    turn = 2 * math.pi / max(1, count)
    places = [(across * (1 - math.cos(n * turn)), down * (1 - math.sin(n * turn))) for n in range(count)]
    top = min(y for _, y in places)
    return [(MARGIN + x, MARGIN + 16 + y - top) for x, y in places]


def _box(
    facts: Facts,
    ranks: tuple[int, ...],
    place: tuple[float, float],
    late: frozenset[int],
    pending: dict[int, PendingCall],
    voice: Voice,
) -> Box:
    short = len(labels.short_ranks(ranks)) <= 24
    title = voice.say(labels.ranks_label(ranks) if short else labels.rank_count(ranks))
    return Box(
        ranks, title, voice.line(_note(facts, ranks[0], pending, voice), 31), all(r in late for r in ranks), *place
    )


def _note(facts: Facts, rank: int, pending: dict[int, PendingCall], voice: Voice) -> str:
    """What the rank does and where, from its stack or its unfinished call."""
    known, call = facts.ranks.get(rank), pending.get(rank)
    activity = known.activity if known is not None else None
    if activity is not None:
        what, where = activity.operation or activity.what, activity.where
    elif call is not None:
        what, where = call.operation, call.where
    else:
        return known.state.value if known is not None else RankState.UNKNOWN.value
    return " · ".join(
        part for part in (what, voice.place(where).rsplit("/", 1)[-1] if where is not None else "") if part
    )


def _arrow(boxes: tuple[Box, ...], waiter: int, awaited: int, named: list[str], voice: Voice) -> Arrow:
    start, end = boxes[waiter], boxes[awaited]
    path, x, y = _route(start, end)
    label, about = _short(voice.line(named[0])), voice.line(", ".join(named), 200)
    level = not (end.x > start.x + BOX_WIDTH and abs(end.y - start.y) >= 16)
    return Arrow(waiter, awaited, label, about, path, x, y, level, _sentence(start, end, voice))


def _short(label: str) -> str:
    """A label that fits between two boxes; the position at its end is kept."""
    name, _, position = label.rpartition(" #")
    if not name:
        return label[:20]
    most = 17 - len(position)
    return f"{name if len(name) <= most else name[: most - 1] + '…'} #{position}"


def _sentence(start: Box, end: Box, voice: Voice) -> str:
    if start is end:
        return voice.say(say("{ranks} wait for each other", ranks=start.title))
    if len(start.ranks) == 1:
        return voice.say(say("{waiter} waits for {awaited}", waiter=start.title, awaited=end.title))
    return voice.say(say("{waiters} wait for {awaited}", waiters=start.title, awaited=end.title))


def _route(start: Box, end: Box) -> tuple[str, float, float]:
    """Path data from one box to another and the place of the label."""
    if start is end:
        x, y = start.x + BOX_WIDTH, start.y + BOX_HEIGHT / 2
        return f"M{x:.0f} {y - 14:.0f}c60 -30 60 58 8 28", x + 108, y + 4
    if end.x > start.x + BOX_WIDTH:
        x1, y1, x2, y2 = start.x + BOX_WIDTH, start.y + BOX_HEIGHT / 2, end.x - 8, end.y + BOX_HEIGHT / 2
        middle = (x1 + x2) / 2
        path = f"M{x1:.0f} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
        if abs(y2 - y1) < 16:
            return path, middle, (y1 + y2) / 2 - 8
        return path, x1 + 6, y1 - 7 if y2 > y1 else y1 + 17
    to_x, to_y = end.x + BOX_WIDTH / 2, end.y + BOX_HEIGHT / 2
    from_x, from_y = start.x + BOX_WIDTH / 2, start.y + BOX_HEIGHT / 2
    x1, y1 = _border(from_x, from_y, to_x, to_y, 2)
    x2, y2 = _border(to_x, to_y, from_x, from_y, 9)
    bend_x, bend_y = (x1 + x2) / 2 + (y1 - y2) * 0.18, (y1 + y2) / 2 + (x2 - x1) * 0.18
    path = f"M{x1:.0f} {y1:.0f}Q{bend_x:.0f} {bend_y:.0f} {x2:.0f} {y2:.0f}"
    return path, (x1 + x2) / 4 + bend_x / 2, (y1 + y2) / 4 + bend_y / 2 - 6


def _border(x: float, y: float, to_x: float, to_y: float, gap: float) -> tuple[float, float]:
    """Where the line from the middle of a box towards ``to`` leaves the box."""
    dx, dy = to_x - x, to_y - y
    if not dx and not dy:
        return x, y
    scale = min(
        (BOX_WIDTH / 2 + gap) / abs(dx) if dx else math.inf, (BOX_HEIGHT / 2 + gap) / abs(dy) if dy else math.inf
    )
    return x + dx * scale, y + dy * scale
