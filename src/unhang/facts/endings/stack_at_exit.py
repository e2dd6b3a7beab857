"""Where a rank stood when it gave up: the traceback of a lost partner or a passed limit is a stack of that moment."""

from __future__ import annotations

from unhang.evidence.items import StackDump, ThreadStack
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.model import RankFacts
from unhang.facts.stacks.user_frames import is_user_frame


def stack_at_exit(facts: RankFacts) -> StackDump | None:
    """The rank's first echo as a stack; None when it has none, or failed by itself before."""
    first = next(iter(facts.tracebacks), None)
    if first is None or not first.frames or not is_echo(first) or is_user_frame(first.frames[0]):
        # A traceback that ends in the user's own code was cut: the call it stood in is missing.
        return None
    thread = ThreadStack(first.thread or "MainThread", "", first.frames, line=first.source.line)
    return StackDump(first.source, facts.rank, facts.pid, (thread,), "traceback", time_s=first.time_s)
