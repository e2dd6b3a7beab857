"""Which cause an error text belongs to, so that a crash is named for what it died of and not for having died."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from unhang.evidence.items import PythonTraceback
from unhang.findings import Cause
from unhang.knowledge.failure_language import NAMES, VAGUE, find_failure_statement
from unhang.knowledge.messages import match_message

_START = re.compile(r"rendezvous|TCPStore|init_process_group|_store|elastic", re.IGNORECASE)


def is_store_port(tracebacks: Iterable[PythonTraceback]) -> bool:
    """A port "in use" is that of the store: it was raised while making the store or a group, or nobody tells where.

    Another server of the program (metrics, TensorBoard) fails with the same words.
    """
    raised = [t for t in tracebacks if "ddress already in use" in t.message]
    return not raised or any(_START.search(f"{f.file} {f.function}") for t in raised for f in t.frames)


@lru_cache(maxsize=4096)
def cause_of_text(text: str) -> Cause | None:
    """The cause that an error text names by itself, ``unknown`` where it only says that something below it failed; None
    when it is a failure of the program's own."""
    text = text[:2000].replace("\n", " ")
    known = cause_of_messages(text)
    if known not in (None, Cause.UNKNOWN):
        return known
    said = find_failure_statement(text, raised=True)
    if said is not None and said.row.strength == NAMES:
        return said.row.cause
    return Cause.UNKNOWN if said is not None and said.row.strength == VAGUE else known


@lru_cache(maxsize=4096)
def cause_of_messages(text: str) -> Cause | None:
    """The cause by the messages alone that the text holds."""
    named = [match.row.cause for match in match_message(text) if match.row.cause is not None]
    return next((cause for cause in named if cause is not Cause.UNKNOWN), named[0] if named else None)
