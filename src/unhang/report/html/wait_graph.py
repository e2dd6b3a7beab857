"""The wait-for graph as a drawing: equal ranks one box, arrows from waiters to the ranks they wait for.

It is made small first: ranks that wait alike are folded together, links that a chain already tells are left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from unhang.facts.model import Facts, PendingCall, RankState, WaitEdge
from unhang.report import labels
from unhang.report.html.late_ranks import group_label, pending_calls
from unhang.report.localizer import Localizer
from unhang.sentences import say

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 222, 58, 150, 30, 10
GAP_DOWN, DEEPEST_ACROSS = 48, 2

MAX_ROUNDS = 12
Links = dict[tuple[int, int], set[str]]
"""(number of the waiting fold, number of the awaited one) → ``group #position``."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Upper left corners of the boxes and the direction in which they wait: ``across``, ``down`` or ``ring``."""

    places: tuple[Point, ...]
    direction: str


@dataclass(frozen=True, slots=True)
class Route:
    """SVG path data of an arrow; its label stands over ``x``, ``y`` or (``level`` false) begins there."""

    path: str
    x: float
    y: float
    level: bool = True


def layout(count: int, links: Iterable[tuple[int, int]]) -> Layout:
    """Waiters left and laggards right; long chains from the top down; a circle when nobody is first."""
    depths = _depths(awaited_of(count, links))
    if depths is None:
        return Layout(_ring(count), "ring")
    deepest = max(depths, default=0)
    if deepest > DEEPEST_ACROSS:
        return Layout(_layers(depths, BOX_HEIGHT + GAP_DOWN, BOX_WIDTH + GAP_Y, down=True), "down")
    return Layout(_layers(depths, BOX_WIDTH + GAP_X, BOX_HEIGHT + GAP_Y, down=False), "across")


def _depths(next_ones: dict[int, set[int]]) -> list[int] | None:
    """Longest way from each box to one that waits for nobody; None when there is none (a cycle)."""
    if next_ones and all(next_ones.values()):
        return None
    depth: dict[int, int] = {}

    def visit(number: int, on_the_way: frozenset[int]) -> int:
        if number not in depth:
            further = [other for other in next_ones[number] if other not in on_the_way]
            depth[number] = 1 + max((visit(other, on_the_way | {number}) for other in further), default=-1)
        return depth[number]

    return [visit(number, frozenset((number,))) for number in sorted(next_ones)]


def _layers(depths: list[int], step: float, beside: float, *, down: bool) -> tuple[Point, ...]:
    deepest = max(depths, default=0)
    most = max((depths.count(depth) for depth in set(depths)), default=1)
    used: defaultdict[int, int] = defaultdict(int)
    places: list[Point] = []
    for depth in depths:
        along = MARGIN + (deepest - depth) * step
        across = MARGIN + ((most - depths.count(depth)) / 2 + used[depth]) * beside
        places.append((across, along) if down else (along, across))
        used[depth] += 1
    return tuple(places)


def _ring(count: int) -> tuple[Point, ...]:
    across, down = max(BOX_WIDTH * 0.9, count * 46.0) + 40, max(70.0, count * 26.0)
    turn = 2 * math.pi / max(1, count)
    places = [(across * (1 - math.cos(n * turn)), down * (1 - math.sin(n * turn))) for n in range(count)]
    top = min((y for _, y in places), default=0.0)
    return tuple((MARGIN + x, MARGIN + 16 + y - top) for x, y in places)


def route(start: Point, end: Point, direction: str) -> Route:
    """The arrow from the box at ``start`` to the one at ``end``; a loop when they are the same."""
    if start == end:
        x, y = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT / 2
        return Route(f"M{x:.0f} {y - 14:.0f}c60 -30 60 58 8 28", x + 108, y + 4)
    if direction == "down" and end[1] > start[1] + BOX_HEIGHT:
        return _down(start, end)
    if direction != "down" and end[0] > start[0] + BOX_WIDTH:
        return _across(start, end)
    return _bent(start, end)


def _across(start: Point, end: Point) -> Route:
    x1, y1, x2, y2 = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT / 2, end[0] - 8, end[1] + BOX_HEIGHT / 2
    middle = (x1 + x2) / 2
    path = f"M{x1:.0f} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    if abs(y2 - y1) < 16:
        return Route(path, middle, (y1 + y2) / 2 - 8)
    return Route(path, x1 + 6, y1 - 7 if y2 > y1 else y1 + 17, level=False)


def _down(start: Point, end: Point) -> Route:
    x1, y1, x2, y2 = start[0] + BOX_WIDTH / 2, start[1] + BOX_HEIGHT, end[0] + BOX_WIDTH / 2, end[1] - 8
    middle = (y1 + y2) / 2
    path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    return Route(path, x1 + 9, y1 + 18, level=False)


def _bent(start: Point, end: Point) -> Route:
    from_x, from_y = start[0] + BOX_WIDTH / 2, start[1] + BOX_HEIGHT / 2
    to_x, to_y = end[0] + BOX_WIDTH / 2, end[1] + BOX_HEIGHT / 2
    x1, y1 = _border(from_x, from_y, to_x, to_y, 2)
    x2, y2 = _border(to_x, to_y, from_x, from_y, 9)
    bend_x, bend_y = (x1 + x2) / 2 + (y1 - y2) * 0.18, (y1 + y2) / 2 + (x2 - x1) * 0.18
    path = f"M{x1:.0f} {y1:.0f}Q{bend_x:.0f} {bend_y:.0f} {x2:.0f} {y2:.0f}"
    return Route(path, (x1 + x2) / 4 + bend_x / 2, (y1 + y2) / 4 + bend_y / 2 - 6)


def _border(x: float, y: float, to_x: float, to_y: float, gap: float) -> Point:
    """Where the line from the middle of a box towards ``to`` leaves the box."""
    dx, dy = to_x - x, to_y - y
    if not dx and not dy:
        return x, y
    scale = min(
        (BOX_WIDTH / 2 + gap) / abs(dx) if dx else math.inf, (BOX_HEIGHT / 2 + gap) / abs(dy) if dy else math.inf
    )
    return x + dx * scale, y + dy * scale


MAX_EXACT, MAX_BOXES, MAX_EDGES, LOOP_ROOM = 12, 40, 2_000_000, 150


@dataclass(frozen=True, slots=True)
class Box:
    """Ranks that wait alike; ``tip`` is ``title`` and ``note`` whole; ``x``, ``y`` is its upper left corner."""

    ranks: tuple[int, ...]
    title: str
    note: str
    tip: str
    laggard: bool
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a waiter's box to an awaited one."""

    label: str
    """The group and position of the stall, short enough to stand beside the arrow."""
    about: str
    """All groups and positions."""
    way: Route
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


EMPTY = Drawing((), (), 0, 0, 0, 0, 0, cycle=False)


def wait_graph(facts: Facts, late: frozenset[int], localizer: Localizer) -> Drawing:
    """The drawing of ``facts.graph``; empty when nobody waits."""
    edges = facts.graph.edges[:MAX_EDGES]
    members = equal_ranks(edges)
    if len(members) > MAX_EXACT:
        members = similar_ranks(edges, late)
    members.sort(key=lambda ranks: (not set(ranks) & late, -len(ranks), ranks[0]))
    left_out = max(0, len(members) - MAX_BOXES)
    members = members[:MAX_BOXES]
    names = {name: group_label(group) for name, group in facts.groups.items()}
    links = transitive_reduction(len(members), links_between(members, edges, names))
    laid = layout(len(members), links)
    pending = pending_calls(facts)
    boxes = tuple(
        _box(facts, ranks, place, late, pending, localizer) for ranks, place in zip(members, laid.places, strict=True)
    )
    lead = next((names.get(stall.group, stall.group) for stall in facts.stalls), "")
    arrows = tuple(
        _arrow(boxes, pair, sorted(named, key=lambda name: (name.rpartition(" #")[0] != lead, name)), laid, localizer)
        for pair, named in sorted(links.items())
    )
    looped = any(waiter == awaited for waiter, awaited in links)
    width = max((box.x for box in boxes), default=0) + BOX_WIDTH + (LOOP_ROOM if looped else MARGIN)
    height = max((box.y for box in boxes), default=0) + BOX_HEIGHT + MARGIN
    return Drawing(boxes, arrows, width, height, BOX_WIDTH, BOX_HEIGHT, left_out, laid.direction == "ring")


def _box(
    facts: Facts,
    ranks: tuple[int, ...],
    place: Point,
    late: frozenset[int],
    pending: dict[int, PendingCall],
    localizer: Localizer,
) -> Box:
    short = len(labels.short_ranks(ranks)) <= 24
    title = localizer.say(labels.ranks_label(ranks) if short else labels.rank_count(ranks))
    note = _note(facts, ranks[0], pending, localizer)
    tip = localizer.line(f"{localizer.say(labels.ranks_label(ranks))} · {note}", 400)
    return Box(ranks, title, localizer.line(note, 31), tip, all(rank in late for rank in ranks), *place)


def _note(facts: Facts, rank: int, pending: dict[int, PendingCall], localizer: Localizer) -> str:
    """What the rank does and where, from its stack or its unfinished call."""
    known, call = facts.ranks.get(rank), pending.get(rank)
    activity = known.activity if known is not None else None
    if activity is not None:
        what, where = activity.operation or activity.what, activity.where
    elif call is not None:
        what, where = call.operation, call.where
    else:
        return known.state.value if known is not None else RankState.UNKNOWN.value
    place = localizer.place(where).rsplit("/", 1)[-1] if where is not None else ""
    return " · ".join(part for part in (what, place) if part)


def _arrow(
    boxes: tuple[Box, ...], pair: tuple[int, int], named: list[str], laid: Layout, localizer: Localizer
) -> Arrow:
    way = route(laid.places[pair[0]], laid.places[pair[1]], laid.direction)
    label, about = _short(localizer.line(named[0])), localizer.line(", ".join(named), 200)
    sentence = _sentence(boxes[pair[0]], boxes[pair[1]], localizer)
    return Arrow(label, about, way, sentence)


def _short(label: str) -> str:
    """A label that fits between two boxes; the position at its end is kept."""
    name, _, position = label.rpartition(" #")
    if not name:
        return label[:20]
    most = max(4, 17 - len(position))
    return f"{name if len(name) <= most else name[: most - 1] + '…'} #{position}"


def _sentence(start: Box, end: Box, localizer: Localizer) -> str:
    if start is end:
        return localizer.say(say("{ranks} wait for each other", ranks=start.title))
    if len(start.ranks) == 1:
        return localizer.say(say("{waiter} waits for {awaited}", waiter=start.title, awaited=end.title))
    return localizer.say(say("{waiters} wait for {awaited}", waiters=start.title, awaited=end.title))


def equal_ranks(edges: Iterable[WaitEdge]) -> list[tuple[int, ...]]:
    """Ranks that wait for the same ranks and are waited for by the same."""
    waits: defaultdict[int, set[tuple[int, str, int | None, str]]] = defaultdict(set)
    awaited_by: defaultdict[int, set[int]] = defaultdict(set)
    for edge in edges:
        waits[edge.waiter].add((edge.awaited, edge.group, edge.position, edge.reason))
        awaited_by[edge.awaited].add(edge.waiter)
    same: defaultdict[object, list[int]] = defaultdict(list)
    for rank in sorted(set(waits) | set(awaited_by)):
        same[frozenset(awaited_by[rank]), frozenset(waits[rank])].append(rank)
    return [tuple(ranks) for ranks in same.values()]


def similar_ranks(edges: Iterable[WaitEdge], late: frozenset[int]) -> list[tuple[int, ...]]:
    """Ranks that wait in the same way for ranks that stand alike: a pipeline stage, the replicas of a shard."""
    waits: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    for edge in edges:
        waits[edge.waiter].add((edge.awaited, edge.reason))
        waits[edge.awaited] |= set()
    kind: dict[int, object] = {rank: rank in late for rank in waits}
    count = len(set(kind.values()))
    for _ in range(MAX_ROUNDS):
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


def links_between(members: list[tuple[int, ...]], edges: Iterable[WaitEdge], names: dict[str, str]) -> Links:
    """Which fold waits for which, with at most six groups and positions each."""
    fold_of = {rank: number for number, ranks in enumerate(members) for rank in ranks}
    links: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for edge in edges:
        waiter, awaited = fold_of.get(edge.waiter), fold_of.get(edge.awaited)
        if waiter is not None and awaited is not None and len(links[waiter, awaited]) < 6:
            position = "" if edge.position is None else f" #{edge.position}"
            links[waiter, awaited].add(f"{names.get(edge.group, edge.group)}{position}")
    return dict(links)


def awaited_of(count: int, links: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    """For each of ``count`` folds the other folds it waits for."""
    found: dict[int, set[int]] = {number: set() for number in range(count)}
    for waiter, awaited in links:
        if waiter != awaited:
            found[waiter].add(awaited)
    return found


def transitive_reduction(count: int, links: Links) -> Links:
    """``links`` without those that a chain of others already tells; all of them when there is a cycle."""
    next_ones = awaited_of(count, links)
    beyond: dict[int, set[int]] = {}
    try:
        for number in TopologicalSorter(next_ones).static_order():  # the awaited before who waits for them
            beyond[number] = next_ones[number].union(*(beyond[other] for other in next_ones[number]))
    except CycleError:
        return links
    return {
        (waiter, awaited): named
        for (waiter, awaited), named in links.items()
        if not any(awaited in beyond[other] for other in next_ones[waiter] if other != awaited)
    }
