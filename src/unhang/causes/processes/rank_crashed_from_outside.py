"""rank-crashed: in logs alone: a scheduler, a person or the cluster ended the job; the line names who.

What happens: Slurm cancels a job at its time limit, Kubernetes evicts a pod, a node is lost, torchrun gets a signal.
Why it hangs: the ranks on other nodes, if they live, wait for those that were ended.
Example: `*** JOB 418211 ON node1 CANCELLED AT 2026-01-06T10:28:25 DUE TO TIME LIMIT ***`.
Fix: ask for more time, checkpoint before the limit, start again without the node.
Certain when: never: a job that hangs is ended in the same way.
Possible when: the job had hung without a word: the same line ends such a job; always with Ctrl-C (signal 2), which is
how people end a job that is stuck.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording.log_signal import log_signal
from unhang.evidence.items import LogEvent
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.endings.ended_by_user import is_interrupt
from unhang.facts.logs.log_statements import field_text, first_attempt, hosts_of_events
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Cause, Ending, Grade
from unhang.sentences import Text, say

CAUSE = Cause.RANK_CRASHED


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The first line that names who ended the job, when nobody failed by itself."""
    events = first_attempt(facts.events_of("slurm.cancel", "slurm.nodefail", "k8s.evicted", "te.signal", "te.sigexc"))
    # Ranks that had waited in vain before were in a stall already: its end is a consequence.
    if not events or primary_crashes(facts) or logged_waits(facts) is not None:
        return
    by_hand = is_interrupt(events[0])
    yield log_signal(
        CAUSE,
        Grade.ORDER,  # nobody failed before it: the line itself would end a job that hangs just as well
        _summary(events[0]),
        events,
        "attach-before-ending" if by_hand else "end-before-time-limit",
        whole=not by_hand,
        ending=Ending.FROM_OUTSIDE,
        nodes=tuple(dict.fromkeys((*(h for e in events if (h := field_text(e, "host"))), *hosts_of_events(events)))),
        because=(
            say("no rank failed or timed out before it; whether the job was stuck then, the log does not say")
            if by_hand
            else say("no rank failed or timed out before it"),
        ),
        ranks=(),
    )


def _summary(event: LogEvent) -> Text:
    if event.kind == "slurm.cancel":
        reason = field_text(event, "reason")
        if reason:
            return say("Slurm ended the job: {reason}", reason=reason)
        return say("Slurm ended the job because somebody cancelled it")
    if event.kind == "slurm.nodefail":
        return say("node {host} was lost", host=field_text(event, "host"))
    if event.kind == "k8s.evicted":
        return say("Kubernetes evicted the pod")
    if is_interrupt(event):
        return say("somebody ended the job with Ctrl-C (signal 2)")
    return say("somebody outside sent signal {signal} to the launcher", signal=field_text(event, "signal"))
