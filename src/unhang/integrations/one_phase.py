"""One phase at a time, for libraries that tell of a beginning and an end in separate calls."""

from __future__ import annotations

from unhang.guards.phases import phase


class ExclusivePhase:
    """The phase that goes on. ``bounds``: how long each may take at most, in seconds, where the user said."""

    def __init__(self, bounds: dict[str, float | None]) -> None:
        self._bounds = bounds
        self._open: phase | None = None
        self.name = ""

    def begin(self, name: str) -> None:
        """``name`` begins, and what went on before ends; going on with the same changes nothing."""
        if name == self.name:
            return
        self.end()
        self._open, self.name = phase(name, at_most_s=self._bounds.get(name)), name
        self._open.__enter__()

    def end(self, name: str = "") -> None:
        """What goes on ends; given ``name``, only that."""
        if self._open is None or name not in ("", self.name):
            return
        ended, self._open, self.name = self._open, None, ""
        ended.__exit__(None, None, None)
