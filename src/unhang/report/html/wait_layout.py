"""Where boxes stand and how arrows run between them, in the units of the drawing (pixels at full size)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from unhang.report.html.wait_links import awaited_of

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 222, 58, 150, 30, 10
GAP_DOWN, DEEPEST_ACROSS = 48, 2

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
