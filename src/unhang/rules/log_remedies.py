"""What to change where one rank writes a log in the training loop: the cheapest first, each with its price."""

from __future__ import annotations

from unhang.findings import Remedy, RemedyKind, Text, say
from unhang.rules.remedies import remedy


def log_remedies() -> tuple[Remedy, ...]:
    """Fewer and leaner values, a faster path, a thread, another host."""
    return (_write_less(), _faster_path(), _in_the_background(), _another_host())


def _write_less() -> Remedy:
    return Remedy(
        title=say("Write fewer and leaner things to the log"),
        kind=RemedyKind.CODE,
        change=say(
            "scalars every 50 steps, histograms and images every 1,000 or not at all; no flush() in the loop: "
            "SummaryWriter(flush_secs=120) does it"
        ),
        cost=say("coarser curves; a crash loses the last two minutes of them"),
        verify=_level_again(),
    )


def _faster_path() -> Remedy:
    return remedy("give-the-log-a-faster-path")


def _in_the_background() -> Remedy:
    return Remedy(
        title=say("Hand the log to a thread that may fall behind"),
        kind=RemedyKind.CODE,
        change=say("writer = unhang.BackgroundWriter(SummaryWriter(log_dir)), no flush() in the loop: it does that"),
        cost=say("memory for what waits to be written, and the end of the job waits for the last of it"),
        verify=_level_again(),
    )


def _another_host() -> Remedy:
    return remedy("keep-the-log-on-another-host")


def _level_again() -> Text:
    return say("the step time falls back to what it was, and no rank is named as slowest")
