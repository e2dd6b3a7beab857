"""Remedies that several detectors give alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from unhang.facts.model import Facts
from unhang.findings import Evidence, Remedy, RemedyKind, Where
from unhang.knowledge.remedies import remedy
from unhang.program.rank_dependence.data_loading_code import guarded_loop, reads_tables_or_shards
from unhang.program.syntax.syntax_tree import find_source
from unhang.sentences import say


def store_wait_remedy(context_manager: str, waiter: Where | None) -> Remedy:
    """``context_manager``: the one that lets the main process go first; empty where it is a branch and a barrier.
    ``waiter``: the line of the program at which the others wait in it."""
    if not context_manager:
        return remedy("wait-on-store")
    if waiter is None:
        return remedy("wait-on-store-in-place", turnstile=context_manager)
    return remedy("wait-on-store-at", turnstile=context_manager, place=f"{PurePath(waiter.file).name}:{waiter.line}")


_TABLE = re.compile(r"[\w./{}-]*\w\.(?:csv|tsv|jsonl|parquet|tar)\b")


def equal_shards_remedy(facts: Facts, said: Sequence[Evidence] = ()) -> Remedy | None:
    """For programs that read tables or shards: write them anew; None for others. ``said``: lines that may name one."""
    names = list(dict.fromkeys(name for line in said for name in _TABLE.findall(line.text)))
    if not names and not reads_tables_or_shards(facts.sources.values()):
        return None
    return remedy("reshard-data", data=names[0] if names else "DATA", ranks=facts.world_size or "N")


def leave_together_remedy(facts: Facts, loop: Where | None = None) -> Remedy:
    """A guard around the data of the loop; ``loop`` is a line in its header, where one is known."""
    source = find_source(facts.sources, loop.file) if loop is not None else None
    code = (
        guarded_loop(source, loop.line) if source is not None and loop is not None and loop.line is not None else None
    )
    return Remedy(
        title=say("Stop together when the first rank runs out"),
        kind=RemedyKind.CODE,
        change=say("{path}:{line}: {code}", path=loop.file, line=loop.line, code=code)
        if code is not None and loop is not None
        else say("for batch in unhang.even_batches(loader): in the place of the loop over the loader"),
        cost=say("batches that only some ranks have are not used"),
        verify=say("all ranks leave the loop at the same step"),
    )
