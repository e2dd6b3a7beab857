"""What to change where one rank writes a log in the training loop: the cheapest first, each with its price."""

from __future__ import annotations

from unhang.findings import Remedy, RemedyKind, Text, say


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
    return Remedy(
        title=say("Give the log a faster path"),
        kind=RemedyKind.CONFIG,
        change=say("tmpfs or a disk of the node (/dev/shm/tb), copied to its place by rsync or `aws s3 sync`"),
        cost=say("memory or disk of the node; what was not copied is lost when the machine goes down"),
        verify=say("unhang check --only storage --path /dev/shm/tb"),
    )


def _in_the_background() -> Remedy:
    return Remedy(
        title=say("Hand the log to a thread that may fall behind"),
        kind=RemedyKind.CODE,
        change=say("writer = unhang.BackgroundWriter(SummaryWriter(log_dir)), no flush() in the loop: it does that"),
        cost=say("memory for what waits to be written, and the end of the job waits for the last of it"),
        verify=_level_again(),
    )


def _another_host() -> Remedy:
    return Remedy(
        title=say("Keep the log on another host"),
        kind=RemedyKind.INFRASTRUCTURE,
        change=say("a tracking server (MLflow, W&B, Aim) that takes values over the network, in a process of its own"),
        cost=say("one more service to run, and a network it can be reached by"),
        verify=say("the rank's files no longer grow, and the step time stays level"),
    )


def _level_again() -> Text:
    return say("the step time falls back to what it was, and no rank is named as slowest")
