"""Long texts and bytes: one digest over the whole, and parts down to the passage that differs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from unhang.guards.fingerprints.nodes import Leaf, Node, Span, digest_of

SHORT = 64
"""Texts up to this length are shown whole."""
_LAST = 32
"""Of a longer one so much is shown: with every letter escaped it still fits a line."""
_STEPS = (_LAST * 64**3, _LAST * 64**2, _LAST * 64, _LAST)
"""How long the parts are, level by level: the same on every rank, however long its text is."""


def _passage(kind: str, text: str | bytes, low: int = 0, level: int = 0, shown: str = "") -> Span:
    """``text`` from place ``low``, with parts of ``_STEPS[level]`` characters."""
    step, last = _STEPS[level], level + 1 == len(_STEPS)

    def shorter(at: int) -> Node:
        part = text[at : at + step]
        if last:
            return Leaf.of("passage", _bytes(part), repr(part))
        return _passage("passage", part, low + at, level + 1)

    def cut() -> dict[str, Callable[[], Node]]:
        # the last may be empty, which is where a shorter text ends
        places = range(0, len(text) + 1, step)
        return {f"[{low + at}:{low + at + step}]" if last else f"~{at}": partial(shorter, at) for at in places}

    return Span(kind, digest_of((_bytes(text),)), cut, shown)


def text_node(value: str | bytes | bytearray) -> Node:
    """A leaf for a short text, parts for a long one."""
    kind = type(value).__name__
    plain = bytes(value) if isinstance(value, bytearray) else value
    if len(plain) <= SHORT:
        return Leaf.of(kind, _bytes(plain), repr(plain))
    return _passage(kind, plain, shown=f"{plain[:SHORT]!r}…")


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
