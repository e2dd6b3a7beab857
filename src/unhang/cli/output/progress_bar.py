"""A bar on the terminal for readings that take longer than two seconds; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_S = 2.0


class ReadingBar:
    """Context manager whose ``tell`` is the ``progress`` of ``read_evidence``."""

    def __init__(self, *, patience_s: float = SHOW_AFTER_S, doing: str = "reading") -> None:
        self._doing = doing
        self._wanted = sys.stderr.isatty()
        self._patience_s = patience_s
        self._started = time.monotonic()
        self._last = 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ReadingBar:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, done: int, total: int, name: str) -> None:
        """Show ``done`` of ``total`` bytes; ``name`` is the file being read."""
        now = time.monotonic()
        if not self._wanted or now - self._started < self._patience_s or now - self._last < 0.1:
            return
        self._last = now
        if self._bar is None:
            self._bar, self._task = _new_bar(total, self._doing)
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total, description=name[-40:])


def _new_bar(total: int, doing: str) -> tuple[Progress, TaskID]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from unhang.cli.output.notes import in_language
    from unhang.report.layout.console import Console

    bar = Progress(
        TextColumn(in_language(doing) + " {task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.start()
    return bar, bar.add_task("", total=total)
