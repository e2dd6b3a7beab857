"""Stacks of a rank's child processes (data-loader workers)."""

from __future__ import annotations

from unhang.evidence.items import StackDump
from unhang.facts.model import Facts
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.findings import Evidence, Source


def loader_workers(facts: Facts, rank: int) -> list[Evidence]:
    """Where the loader workers of ``rank``: ``read_sample (data.py:14)``; user frame first."""
    return [evidence for stack in facts.ranks[rank].worker_stacks if (evidence := _place(stack, rank)) is not None]


def _place(stack: StackDump, rank: int) -> Evidence | None:
    for thread in stack.threads:
        if not any(frame.function == "_worker_loop" for frame in thread.frames):
            continue
        frame = next((f for f in thread.frames if is_user_frame(f)), thread.frames[0])
        text = f"{frame.function} ({frame.file}:{frame.line})"
        return Evidence(Source(stack.source.path, thread.line), text, rank)
    return None
