"""gpu-oom: in logs alone: a line says that the GPU's memory ran out, and no traceback stands around it.

What happens: a launcher, NCCL or a torn paste prints the out-of-memory line alone.
Why it hangs: the rank that could not allocate never joins the next collective.
Example: `NCCL WARN Failed to CUDA malloc 6291456 bytes`, or the exception's last line in a paste of three lines.
Fix: less memory per step on that rank; look for strangers on its card.
Certain when: never: whether the program survived it is not told.
Possible when: the program counts further steps after it: it was caught.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording.log_signal import log_signal
from unhang.evidence.items import LogEvent
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.log_statements import events_stating, field_text, first_attempt, ranks_of_events
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade
from unhang.sentences import say

CAUSE = Cause.GPU_OOM


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Lines about GPU memory that no exception of the job carries."""
    nccl = [e for e in first_attempt(facts.events_of("n.cuda")) if "out of memory" in field_text(e, "error")]
    events = (*events_stating(facts, "oom"), *nccl)
    if not events or any(c.is_gpu_out_of_memory for c in primary_crashes(facts)):
        return
    ranks = ranks_of_events(events)
    survived = all(_steps_continued(facts, event) for event in events)
    yield log_signal(
        CAUSE,
        Grade.ORDER,  # that it ran out is stated; that it ended somebody follows from what comes after it
        say("{ranks:who} ran out of GPU memory; the others wait for it", ranks=ranks)
        if ranks
        else say("a process ran out of GPU memory"),
        events,
        "free-gpu-memory",
        whole=not survived and not primary_crashes(facts),
        because=(
            say("steps were counted after it, so the program may have caught it")
            if survived
            else say("nothing that was read shows the program going on after it"),
        ),
    )


def _steps_continued(facts: Facts, event: LogEvent) -> bool:
    return any(
        p.source.path == event.source.path and p.last_line > (event.source.line or 0) and p.rank == event.rank
        for log in facts.logs
        for p in log.progress
    )
