"""The order in which workers take files: jobs between quick tests, so that one computes while the other waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

WITHIN = 0.75
"""So far into the others the last one begins: at the end none must be the only one at work."""


def in_good_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """``items``, file by file: quick ones by their number of tests, jobs evenly among them, stories evenly among these.

    A story loads the largest libraries: two at once are enough.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    quick = sorted((f for f in files.values() if not _waits(f)), key=len, reverse=True)
    waits = [f for f in files.values() if _waits(f)]
    stories = [f for f in waits if f[0].path.parent.name == "stories"]
    jobs = [f for f in waits if f not in stories]
    return [item for file in _among(quick, [*_among(jobs, stories)]) for item in file]


def _waits(file: Sequence[pytest.Item]) -> bool:
    """Real jobs in it wait more than they compute."""
    return any(item.get_closest_marker("job") and not item.get_closest_marker("live") for item in file)


def _among(many: Sequence[list[pytest.Item]], few: Sequence[list[pytest.Item]]) -> Iterator[list[pytest.Item]]:
    apart = max(1, int(len(many) * WITHIN / max(1, len(few))))
    left = iter(few)
    for number, file in enumerate(many):
        if number % apart == 0 and (one := next(left, None)) is not None:
            yield one
        yield file
    yield from left
