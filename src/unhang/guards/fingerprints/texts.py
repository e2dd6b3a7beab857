"""Long texts and bytes: one digest over the whole, and parts down to the passage that differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unhang.guards.fingerprints.nodes import Leaf, Node, digest_of

SHORT = 64
"""Texts up to this length are shown whole."""
_LAST = 32
"""Of a longer one so much is shown: with every letter escaped it still fits a line."""
_STEPS = (_LAST * 64**3, _LAST * 64**2, _LAST * 64, _LAST)
"""How long the parts are, level by level: the same on every rank, however long its text is."""


@dataclass(slots=True)
class Passage:
    """``text`` from place ``low``, with parts of ``_STEPS[level]`` characters."""

    kind: str
    text: str | bytes
    low: int = 0
    level: int = 0
    shown: str = ""
    size: int | None = None

    def digest(self, limits: Mapping[str, int]) -> str:  # noqa: ARG002
        """Over the whole passage."""
        return digest_of((self.kind.encode(), _bytes(self.text)))

    def parts(self, limits: Mapping[str, int]) -> list[tuple[str, str]]:
        """In order; the last may be empty, which is where a shorter text ends."""
        return [(self._label(at), self._part(at).digest(limits)) for at in self._places()]

    def child(self, label: str) -> Node:
        """The part called ``label``."""
        return self._part(next(at for at in self._places() if self._label(at) == label))

    def _places(self) -> range:
        return range(0, len(self.text) + 1, _STEPS[self.level])

    def _label(self, at: int) -> str:
        return f"~{at}" if self.level + 1 < len(_STEPS) else f"[{self.low + at}:{self.low + at + _LAST}]"

    def _part(self, at: int) -> Node:
        text = self.text[at : at + _STEPS[self.level]]
        if self.level + 1 < len(_STEPS):
            return Passage("passage", text, self.low + at, self.level + 1)
        return Leaf.of("passage", _bytes(text), repr(text))


def text_node(value: str | bytes | bytearray) -> Node:
    """A leaf for a short text, parts for a long one."""
    kind = type(value).__name__
    plain = bytes(value) if isinstance(value, bytearray) else value
    if len(plain) <= SHORT:
        return Leaf.of(kind, _bytes(plain), repr(plain))
    return Passage(kind, plain, shown=f"{plain[:SHORT]!r}…")


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
