"""By what a secret is known: the rules of gitleaks as rows of ``secret_shapes.tsv``.

Read with the standard library alone, and quickly: a training process reads it when an exception ends it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PLACE = Path(__file__).with_name("secret_shapes.tsv")


class Service(NamedTuple):
    """A service whose secrets are told by its name before them."""

    named: re.Pattern[str]
    secret: re.Pattern[str]


def _rows() -> list[list[str]]:
    lines = _PLACE.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@cache
def shapes() -> re.Pattern[str]:
    """Matches every secret that is known by its own letters, somewhere in a word."""
    patterns = (re.sub(r"\((?!\?)", "(?:", pattern) for kind, _, _, pattern in _rows() if kind == "shape")
    return re.compile("|".join(patterns))


@cache
def services() -> tuple[Service, ...]:
    """What stands before the secrets that are not known by their own letters, and how these look."""
    found = (row for row in _rows() if row[0] == "near")
    return tuple(Service(re.compile(f"(?i:{named})"), re.compile(pattern)) for _, _, named, pattern in found)


@cache
def any_service() -> re.Pattern[str]:
    """Matches where the name of any of the services stands."""
    names = dict.fromkeys(row[2] for row in _rows() if row[0] == "near")
    return re.compile("|".join(names), re.IGNORECASE)
