"""gpu-oom: a rank ran out of accelerator memory: it died or waits in a handler, and the other ranks wait for it.

What happens: `torch.OutOfMemoryError` on one rank, often on only one: longer sequences, or another process on its card.
Why it hangs: the rank never joins the next collective; its peers wait until their limit.
Example: rank 2 raises `CUDA out of memory` in backward; ten minutes later every other rank times out in all_reduce.
Fix: use less memory per step (batch, sequence length, checkpointing) or balance the load; remove other processes from
the card.
Certain when: the out-of-memory exception is recorded with its rank.
Possible when: the memory error comes from NCCL's own set-up, or its rank is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, waiters_call
from unhang.causes.wording.signals import log_signal
from unhang.evidence.items import LogEvent
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.log_statements import events_stating, field_text, first_attempt, ranks_of_events
from unhang.facts.model import Facts
from unhang.facts.worlds.roles_seen import is_of_engines
from unhang.findings import Cause, Consequence, Grade
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences

CAUSE = Cause.GPU_OOM
tell = Sentences("causes/gpu-oom.toml")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The first own failure is an out-of-memory error of the accelerator."""
    crashes = primary_crashes(facts)
    memory = [c for c in crashes if c.is_gpu_out_of_memory]
    if not memory:
        return
    first = memory[0]
    ranks = tuple(sorted({c.rank for c in memory if c.rank is not None and c.attempt == first.attempt}))
    stall = next((s for s in facts.stalls if set(s.laggards) & set(ranks)), None)
    others = tuple(sorted(set(facts.ranks) - set(ranks)))
    leads = crashes[0] is first or crashes[0].time_s is None
    yield make_signal(
        Grade.STATED,
        tell("out-of-memory-of" if ranks else "out-of-memory", ranks=ranks),
        whole=bool(ranks) and leads,
        ranks=ranks,
        group=group_label(facts, stall.group) if stall else None,
        where=first.where,
        waiter_where=stall.call.where if stall and stall.call else None,
        calls=waiters_call(stall.direct_waiters, stall.call) if stall else (),
        because=(tell("first-failure", exception=first.exception),),
        evidence=tuple(c.evidence for c in memory[:3]),
        remedies=(remedy(_less(facts)), *(() if is_of_engines(facts) else (remedy("enable-expandable-segments"),))),
        consequences=(Consequence(CAUSE, others, len(others), tell("waited-for-it", ranks=others)),) if others else (),
    )


def _less(facts: Facts) -> str:
    return "reduce-gpu-memory-of-engine" if is_of_engines(facts) else "reduce-gpu-memory"


# ---------------------------------------------------------------------------------------------------
# lines alone


def detect_printed(facts: Facts) -> Iterator[DetectorResult]:
    """Lines about GPU memory that no exception of the job carries: a launcher's, NCCL's (`NCCL WARN Failed to CUDA
    malloc`), the last line of an exception in a torn paste. Never certain: whether the program survived it is not told.
    """
    nccl = [e for e in first_attempt(facts.events_of("n.cuda")) if "out of memory" in field_text(e, "error")]
    events = (*events_stating(facts, "oom"), *nccl)
    if not events or any(c.is_gpu_out_of_memory for c in primary_crashes(facts)):
        return
    ranks = ranks_of_events(events)
    survived = all(_steps_continued(facts, event) for event in events)
    yield log_signal(
        Grade.ORDER,  # that it ran out is stated; that it ended somebody follows from what comes after it
        tell("out-of-memory-of" if ranks else "out-of-memory", ranks=ranks),
        events,
        _less(facts),
        whole=not survived and not primary_crashes(facts),
        because=(tell("steps-after" if survived else "none-went-on"),),
    )


def _steps_continued(facts: Facts, event: LogEvent) -> bool:
    return any(
        p.source.path == event.source.path and p.last_line > (event.source.line or 0) and p.rank == event.rank
        for log in facts.logs
        for p in log.progress
    )
