"""Waiters whose own stack says for whom they wait: ``main_process_first``, ``rank_zero_first`` and their like."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from unhang.evidence.items import Frame
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Where
from unhang.knowledge import numbers

# Context managers of transformers, accelerate, YOLO, Lightning, LLaMA-Factory.
_FIRST = re.compile(
    r"^_?(?:local_)?(?:main_process|rank_zero|zero|rank0|torch_distributed_zero|master)_first$|_goes_first$"
)
_LOCAL = re.compile(r"local")
_WAITING = {"barrier", "wait_for_everyone", "monitored_barrier", "synchronize"}


@dataclass(frozen=True, slots=True)
class MainProcessWait:
    """``waiter`` stands at ``where`` until the main process is done."""

    waiter: int | None
    where: Where | None
    context_manager: str
    """The context manager's name: ``main_process_first``."""
    local: bool
    """The first of each node goes first, not rank 0 of the job."""
    evidence: Evidence
    first: int
    """Who goes first: rank 0; where each node has its own first process, the first rank seen on the waiter's node."""


def main_process_wait(facts: Facts) -> MainProcessWait | None:
    """The first traceback that ended inside such a barrier."""
    for traceback in facts.tracebacks:
        name = main_first_in_frames(traceback.frames)
        if name is None:
            continue
        found = re.match(r"\[(\d+)\] is setting up NCCL communicator", traceback.message)
        waiter = traceback.rank if traceback.rank is not None else numbers.rank(found[1]) if found else None
        local = bool(_LOCAL.search(name))
        return MainProcessWait(
            waiter,
            first_user_frame(traceback.frames),
            name,
            local,
            replace(quote_traceback(traceback), rank=waiter),
            _first_of_node(facts, waiter) if local and waiter is not None else 0,
        )
    return None


def _first_of_node(facts: Facts, waiter: int) -> int:
    host = facts.ranks[waiter].host if waiter in facts.ranks else None
    return min((r for r, known in facts.ranks.items() if host is not None and known.host == host), default=0)


def main_first_of_stall(facts: Facts, stall: Stall) -> str | None:
    """Name of the main-first context manager in which a direct waiter of ``stall`` waits, or gave up; None when none
    does."""
    for rank in stall.direct_waiters:
        known = facts.ranks[rank]
        threads = known.stack.threads if known.stack is not None else ()
        stacks = [*(thread.frames for thread in threads), *(traceback.frames for traceback in known.tracebacks)]
        found = (main_first_in_frames(frames) for frames in stacks)
        name = next((name for name in found if name is not None), None)
        if name is not None:
            return name
    return None


def main_first_in_frames(frames: tuple[Frame, ...]) -> str | None:
    """The context manager whose barrier ``frames`` (innermost first) end in."""
    waiting = any(frame.function in _WAITING for frame in frames[:3])
    names = [bare for frame in frames if _FIRST.search(bare := _bare(frame.function))]
    return names[0] if names and (waiting or _FIRST.search(_bare(frames[0].function))) else None


def is_main_first_name(name: str) -> bool:
    """Whether a context manager of this name lets the main process go first."""
    return bool(_FIRST.search(name))


def _bare(function: str) -> str:
    """Without its class: py-spy of newer Pythons says ``TrainingArguments.main_process_first``."""
    return function.rsplit(".", 1)[-1]
