"""``verdict.json`` as our own processes read it back; ``report/verdict_document.py`` declares the whole of it."""

from __future__ import annotations

import msgspec


class KeptPlace(msgspec.Struct, frozen=True):
    """A line of the program."""

    file: str = ""
    line: int | None = None


class CitedText(msgspec.Struct, frozen=True):
    """A piece of evidence."""

    text: str = ""


class KeptFinding(msgspec.Struct, frozen=True):
    """Of a finding what lists of runs tell."""

    cause: str
    certainty: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    where: KeptPlace | None = None
    summary: str = ""
    evidence: tuple[CitedText, ...] = ()


class KeptVerdict(msgspec.Struct, frozen=True):
    """The first finding is the verdict."""

    findings: tuple[KeptFinding, ...] = ()
    status: str = "unknown"
