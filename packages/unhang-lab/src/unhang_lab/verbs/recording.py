"""What a recording is doing, with the time it took to get there, and the verdict on what it recorded."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from unhang.report.language import translate
from unhang.sentences import Text

if TYPE_CHECKING:
    from typing_extensions import Self

    from unhang.findings import Verdict


class RecordingSteps:
    """One line a step on standard error, and a spinner on the last one when that is a terminal."""

    def __init__(self, lang: str = "en") -> None:
        from unhang.report.layout.console import Console

        self._lang = lang
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("")
        self._began = time.monotonic()

    def tell(self, step: Text) -> None:
        """Say that ``step`` begins."""
        said = translate(step, self._lang)
        self._console.print(f"  [dim]{time.monotonic() - self._began:5.1f} s[/dim]  {said}")
        self._status.update(said)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()


@contextlib.contextmanager
def interrupt_on_termination() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into :class:`KeyboardInterrupt`, so that what was started is ended and reaped.

    Signal handlers belong to the main thread; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_verdict(bundle: Path, *, report: Path | None = None, lang: str | None = None) -> Verdict:
    """Read ``bundle``, print the verdict, write an HTML report when ``report`` names one. Returns it."""
    from unhang.cli.output.verdict_output import VerdictOutput
    from unhang.diagnosis.diagnose import diagnose
    from unhang.evidence.inputs import read_evidence
    from unhang.facts.build import build_facts

    facts = build_facts(read_evidence([str(bundle)]))
    verdict = diagnose(facts)
    output = VerdictOutput.chosen("text", lang=lang, redact=False)
    output.give(verdict, facts)
    if report is not None:
        output.write_html(report, verdict, facts)
    return verdict
