"""Waiters whose own stack says for whom they wait: a barrier that lets the main process go first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.items import Frame
from unhang.facts.model import Facts
from unhang.facts.user_frames import first_user_frame
from unhang.findings import Evidence, Source, Where

# Context managers of transformers, accelerate, YOLO, Lightning, LLaMA-Factory.
_FIRST = re.compile(
    r"^_?(?:local_)?(?:main_process|rank_zero|zero|rank0|torch_distributed_zero|master)_first$|_goes_first$"
)
_LOCAL = re.compile(r"local")
_WAITING = {"barrier", "wait_for_everyone", "monitored_barrier", "synchronize"}


@dataclass(frozen=True, slots=True)
class WaitsForMain:
    """``waiter`` stands at ``where`` until the main process is done."""

    waiter: int | None
    where: Where | None
    local: bool
    """The first of each node goes first, not rank 0 of the job."""
    evidence: Evidence


def waits_for_main(facts: Facts) -> WaitsForMain | None:
    """The first traceback that ended inside such a barrier."""
    for traceback in facts.tracebacks:
        name = _turnstile(traceback.frames)
        if name is None:
            continue
        text = f"{traceback.exception}: {traceback.message}"[:500]
        found = re.match(r"\[(\d+)\] is setting up NCCL communicator", traceback.message)
        waiter = traceback.rank if traceback.rank is not None else int(found[1]) if found else None
        return WaitsForMain(
            waiter,
            first_user_frame(traceback.frames),
            bool(_LOCAL.search(name)),
            Evidence(Source(traceback.source.path, traceback.source.line), text, waiter),
        )
    return None


def _turnstile(frames: tuple[Frame, ...]) -> str | None:
    waiting = any(frame.function in _WAITING for frame in frames[:3])
    names = [frame.function for frame in frames if _FIRST.search(frame.function)]
    return names[0] if names and (waiting or _FIRST.search(frames[0].function)) else None
