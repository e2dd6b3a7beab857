"""Show what a recording is doing, with the time it took to get there."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from unhang.report.layout.console import Console


class RecordingSteps:
    """One line a step, and a spinner on the last one when the output is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("starting")
        self._began = time.monotonic()

    def tell(self, step: str) -> None:
        """Say that ``step`` begins."""
        self._console.print(f"  [dim]{time.monotonic() - self._began:5.1f} s[/dim]  {step}")
        self._status.update(step)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()
