"""Whether what was given is the log of a training at all: a greeting and a README are not."""

from __future__ import annotations

from pathlib import PurePath

from unhang.evidence.items import LogReading
from unhang.facts.model import Facts

_DOCUMENTS = (".md", ".rst", ".adoc", ".html", ".tex")


def holds_no_training(facts: Facts) -> bool:
    """Only text was given, all of it could be read, and it is a document, or nothing in it is of a rank, a launcher or
    a library. Asked where nothing wrong was found."""
    if facts.manifests or facts.unread or facts.unattributed_stacks:
        return False
    dumped = any(known.recording or known.stack for known in facts.ranks.values())
    return not dumped and bool(facts.logs) and all(map(_is_foreign, facts.logs))


def _is_foreign(log: LogReading) -> bool:
    """A document by its name, or prose: few of its lines hold a number, and none a time."""
    if PurePath(log.source.path).suffix.lower() in _DOCUMENTS:
        return True
    told = (log.ranks, log.events, log.tracebacks, log.exits, log.progress, log.endings, log.unrecognized_failures)
    if any(told) or log.rank is not None or log.role:
        return False
    numbered = sum(any(map(str.isdigit, line.text)) for line in log.said)
    return log.first_time_s is None and 2 * numbered < max(1, len(log.said))
