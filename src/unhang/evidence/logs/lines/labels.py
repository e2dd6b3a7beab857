"""Labels that no table knows: something with a number in it that stands before lines, and few values take turns at.

Launchers, tools and programs label lines in more ways than anybody can list: ``(1)``, ``[3]``, ``[PID:8123] [RANK:0]``,
``p61044``, ``Part 2 |``. What they have in common is learned from the log itself. A label in front of lines that no
logger writes (those of tracebacks) was put there by somebody who labels everything; any other must stand before most
lines, and its values must take turns: a counter or a time never comes back.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unhang.evidence.logs.lines.progress import find_step

_HEAD_TEXT = (
    r"(?:\[[^\[\]\n]{1,40}\]|\([^()\n]{1,40}\)|<[^<>\n]{1,40}>|\{[^{}\n]{1,40}\}"
    r"|[A-Za-z][\w.-]{0,30}?[ #=-]?\d{1,10}(?= ?[:|>](?!\w)| +(?:Traceback| File \")))(?: ?[:|>](?!\w))? ?"
)
_HEAD = re.compile(_HEAD_TEXT)
_NUMBER = re.compile(r"\d+")
_ALWAYS_BARE = re.compile(rf"(?:{_HEAD_TEXT})*(?:Traceback \(most recent call last\)| {{2,}}File \")")
"""Lines of tracebacks, behind more labels: the interpreter prints them, no logger writes anything before them."""
_MEANING = (
    ("local", re.compile(r"local[_ -]?rank\W{0,3}$", re.IGNORECASE)),
    ("rank", re.compile(r"(?:^|[^a-z])(?:global[_ -]?)?rank\W{0,3}$", re.IGNORECASE)),
    ("pid", re.compile(r"(?:^|[^a-z])p(?:id\W{0,3})?$", re.IGNORECASE)),
    ("label", re.compile(r"^\W$")),
)
"""What a number is, by the word before it; one without any word is a launcher's number of a rank or a node."""
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Label:
    """One learned way of labelling. ``pattern`` has the groups of ``Speaker``; ``whole`` says that all is labelled."""

    pattern: re.Pattern[str]
    whole: bool
    """Cut it off: what it stands before is not its writer's."""


def labels_in(lines: Sequence[str]) -> tuple[Label, ...]:
    """The ways of labelling that ``lines`` show, outermost first."""
    found: list[Label] = []
    for _ in range(_ROUNDS):
        label = _label_of(lines)
        if label is None:
            break
        found.append(label)
        lines = [line[match.end() :] if (match := label.pattern.match(line)) is not None else line for line in lines]
    return tuple(found)


def _label_of(lines: Sequence[str]) -> Label | None:
    shapes: dict[str, list[tuple[int, re.Match[str]]]] = defaultdict(list)
    for number, line in enumerate(lines):
        if (head := _HEAD.match(line)) is not None and _NUMBER.search(head[0]) is not None:
            shapes[_NUMBER.sub("#", head[0].rstrip())].append((number, head))
    for shape, heads in sorted(shapes.items(), key=lambda item: -len(item[1])):
        if shape.count("#") > 1:  # a time, a place in a file, a fraction
            continue
        whole = any(_ALWAYS_BARE.match(head.string, head.end()) for _, head in heads)
        if whole or (len(heads) * 2 > len(lines) and _take_turns(heads) and not _counts(heads)):
            return _label(shape, whole)
    return None


def _take_turns(heads: Iterable[tuple[int, re.Match[str]]]) -> bool:
    """Most values speak between the first and the last line of most others."""
    spans: dict[str, list[int]] = {}
    for number, head in heads:
        span = spans.setdefault(head[0].rstrip(), [number, number])
        span[1] = number
    if len(spans) < 2:
        return False
    both = [a[0] < b[1] and b[0] < a[1] for a in spans.values() for b in spans.values() if a is not b]
    return sum(both) * 2 > len(both)


def _counts(heads: Iterable[tuple[int, re.Match[str]]]) -> bool:
    """The number is that of a step: without it no step is left."""
    return any(_step(head.string) != _step(head.string[head.end() :]) for _, head in heads)


def _step(text: str) -> int | None:
    step = find_step(text)
    return step.number if step is not None else None


def _label(shape: str, whole: bool) -> Label:
    before, _, after = shape.partition("#")
    meaning = next((name for name, words in _MEANING if words.search(before)), None)
    number = r"\d{1,10}"
    if meaning is None:
        pattern = rf"(?P<name>{re.escape(before)}{number}{re.escape(after)}) ?"
    else:
        pattern = rf"{re.escape(before)}(?P<{meaning}>{number}){re.escape(after)} ?"
    return Label(re.compile(pattern), whole or meaning == "label")
