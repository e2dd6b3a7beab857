"""Who timed out in which call, as logs tell it."""

from __future__ import annotations

from unhang.causes.evidence_lines import numbered
from unhang.facts.logs.waits_in_logs import LoggedWaits, LogWait
from unhang.facts.model import Facts
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

tell = Sentences("causes/unknown.toml")
_MAX_CALLS = 4


def who_timed_out(facts: Facts, logged: LoggedWaits) -> Text:
    """Who, in which call: one that all share, or each in its own."""
    waits = [wait for wait in logged.waits if wait.rank is not None] or list(logged.waits)
    first, many_groups = waits[0], len({wait.group for wait in waits}) > 1
    calls = {wait.rank: _call_text(facts, wait, with_group=many_groups) for wait in waits}
    ranks, call = logged.ranks, _call_text(facts, first, with_group=False)
    if not ranks:
        return tell("timed-out-somewhere", call=call) if call else tell("some-timed-out")
    if not any(calls.values()):
        return tell("timed-out", ranks=ranks)
    if len(set(calls.values())) > 1:
        shown = ", ".join(f"rank {rank}: {calls[rank] or '?'}" for rank in ranks[:_MAX_CALLS])
        return tell("calls-differ", ranks=ranks, calls=shown + (" …" if len(ranks) > _MAX_CALLS else ""))
    if len(ranks) == ranks[-1] + 1 > 1 and first.position is not None:
        return tell("all-seen-timed-out", count=len(ranks), operation=first.operation, position=first.position)
    return tell("timed-out-in", waiters=ranks, call=call)


def _call_text(facts: Facts, wait: LogWait, *, with_group: bool) -> str:
    """The call as in both languages, by its traceback where its line does not tell; empty for a wait on the store."""
    known = facts.ranks.get(wait.rank) if wait.rank is not None else None
    activity = known.activity if known is not None else None
    name = numbered(wait.operation or (activity.operation if activity else None) or "", wait.position)
    return f"{name} (PG {wait.group})" if with_group and name else name
