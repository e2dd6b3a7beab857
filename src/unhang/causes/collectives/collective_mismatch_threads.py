"""collective-mismatch: of two threads: both of one process call collectives of one group, in no fixed order.

What happens: a thread that saves or reports calls a collective while the main thread trains, in the same group.
Why it hangs: the library pairs calls by order, and which thread comes first is chance: on one rank its call is first,
on another the training's. NCCL allows one thread a group at a time.
Example: `threading.Thread(target=save)` with `dist.barrier()` or `all_gather_object` in `save`, in the default group.
Fix: a group of its own for the thread, made by all ranks before it starts; or collectives from the main thread alone.
Certain when: the last recorded calls of one group are those of both lines, and the ranks' differ at one position.
Possible when: likely, where only the stacks tell, or no record shows that the order differs.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, hosts_of
from unhang.facts.model import Activity, Facts
from unhang.facts.waiting.concurrent_collectives import ConcurrentCollectives, concurrent_collectives
from unhang.findings import Call, Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.COLLECTIVE_MISMATCH


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Two threads of a rank in collectives of one group."""
    found = concurrent_collectives(facts)
    if found is None:
        return
    differ = any(one.group == found.group for one in facts.mismatches)
    yield make_signal(
        CAUSE,
        Grade.RECORD if found.group is not None else Grade.STACK,
        say(
            "two threads of {ranks:who} call collectives of one group at the same time: {main} and {other}",
            ranks=found.ranks,
            main=found.main.operation,
            other=found.other.operation,
        ),
        whole=differ or found.group is None,
        ranks=found.ranks,
        nodes=hosts_of(facts, found.ranks),
        group=group_label(facts, found.group),
        phase=Phase.COMMUNICATION,
        where=found.other.where,
        waiter_where=found.main.where,
        calls=tuple(Call(found.ranks, one.operation or "") for one in (found.other, found.main)),
        because=tuple(_because(found, differ=differ)),
        evidence=(found.other.evidence, found.main.evidence),
        remedies=(remedy("use-group-per-thread", thread=_name(found.other)),),
    )


def _because(found: ConcurrentCollectives, *, differ: bool) -> Iterator[Text]:
    for one in (found.main, found.other):
        if one.where is not None:
            yield say(
                "thread {thread} is in {operation} at {file}:{line}",
                thread=_name(one),
                operation=one.operation,
                file=one.where.file,
                line=one.where.line,
            )
    if differ:
        yield say("at one position of the group the ranks called different ones of the two")
    yield say("calls of a group are paired by order, and which of the threads comes first is chance on each rank")


def _name(one: Activity) -> str:
    return (one.thread.name if one.thread is not None else "") or "?"
