"""By what a secret is known: rules of gitleaks as rows (``gitleaks.tsv``), more services in ``services.txt``.

Read with the standard library alone, and quickly: a training process reads it when an exception ends it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PLACE = Path(__file__).with_name("gitleaks.tsv")
_SERVICES = Path(__file__).with_name("services.txt")


class SecretService(NamedTuple):
    """A service whose secrets are told by its name before them."""

    named: re.Pattern[str]
    secret: re.Pattern[str]


class _Row(NamedTuple):
    kind: str
    name: str
    literals: str
    service: str
    pattern: str


@cache
def _rows(kind: str) -> tuple[_Row, ...]:
    lines = _PLACE.read_text(encoding="utf-8").splitlines()
    rows = (_Row(*line.split("\t")) for line in lines if line and not line.startswith("#"))
    return tuple(row for row in rows if row.kind == kind)


@cache
def hints_of(kind: str) -> tuple[str, ...]:
    """Literals, in lower case, of which one stands in every line with a secret that its letters tell (``shape``), or
    that names a service (``near``)."""
    return tuple(dict.fromkeys(literal for row in _rows(kind) for literal in row.literals.split(" ")))


@cache
def secret_shape_pattern() -> re.Pattern[str]:
    """Matches every secret that is known by its own letters, where a word or a part of one begins."""
    patterns = (re.sub(r"\((?!\?)", "(?:", row.pattern) for row in _rows("shape"))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(patterns)})")


@cache
def secret_services() -> tuple[SecretService, ...]:
    """What stands before the secrets that are not known by their own letters, and how these look."""
    return tuple(SecretService(re.compile(f"(?i:{row.service})"), re.compile(row.pattern)) for row in _rows("near"))


@cache
def service_names() -> frozenset[str]:
    """Names, in lower case, of services whose keys may look like any checksum."""
    lines = _SERVICES.read_text(encoding="ascii").splitlines()
    return frozenset(name for line in lines if not line.startswith("#") for name in line.split())
