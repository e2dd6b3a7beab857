"""What was read, as evidence: to the letter, at the line where it stands."""

from __future__ import annotations

from unhang.evidence.items import LastLine, Progress, PythonTraceback
from unhang.findings import Evidence, Source
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.sentences import shortened


def exception_line(traceback: PythonTraceback) -> str:
    """The last line of a traceback, with all of its message."""
    said = traceback.message if traceback.message[:1] in ("", "\n") else f": {traceback.message}"
    return f"{traceback.exception}{said}"


def exception_source(traceback: PythonTraceback) -> Source:
    """Where its exception stands; the traceback begins above."""
    return Source(traceback.source.path, traceback.raised_line or traceback.source.line)


def quote_traceback(traceback: PythonTraceback) -> Evidence:
    """The exception, at its line of the log."""
    time = time_text(traceback.time_s, TimeForm.DAY) if traceback.time_s is not None else ""
    return Evidence(exception_source(traceback), shortened(exception_line(traceback)), traceback.rank, time or None)


def quote_progress(progress: Progress) -> Evidence:
    """The last line of a counter."""
    return Evidence(Source(progress.source.path, progress.last_line), progress.last_text, progress.rank)


def quote_line(line: LastLine) -> Evidence:
    """An ordinary line."""
    return Evidence(line.source, shortened(line.text.strip()), line.rank)
