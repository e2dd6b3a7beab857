"""The wait-for graph as a drawing: equal ranks one box, arrows from waiters to the ranks they wait for."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.model import Facts, PendingCall, RankState
from unhang.report import labels
from unhang.report.html.late_ranks import group_label, pending_calls
from unhang.report.html.wait_layout import BOX_HEIGHT, BOX_WIDTH, MARGIN, Layout, Point, layout, route
from unhang.report.html.wait_links import equal_ranks, links_between, similar_ranks, transitive_reduction
from unhang.report.localizer import Localizer
from unhang.sentences import say

MAX_EXACT, MAX_BOXES, MAX_EDGES, LOOP_ROOM = 12, 40, 2_000_000, 150


@dataclass(frozen=True, slots=True)
class Box:
    """Ranks that wait alike; ``x``, ``y`` is its upper left corner."""

    ranks: tuple[int, ...]
    title: str
    note: str
    laggard: bool
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a waiter's box to an awaited box (their numbers). ``path`` is SVG path data."""

    waiter: int
    awaited: int
    label: str
    """The group and position of the stall, short enough to stand beside the arrow."""
    about: str
    """All groups and positions."""
    path: str
    x: float
    y: float
    level: bool
    """The label stands over ``x``; otherwise it begins there."""
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
    note = localizer.line(_note(facts, ranks[0], pending, localizer), 31)
    return Box(ranks, title, note, all(rank in late for rank in ranks), *place)


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
    return Arrow(*pair, label, about, way.path, way.x, way.y, way.level, sentence)


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
