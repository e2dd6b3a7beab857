"""deadlock-order: a rank waits for a file lock that another rank holds, which waits for it in a collective.

What happens: every rank takes the same lock file, and calls a collective while it holds it.
Why it hangs: only one rank can hold the lock; the others never come to the collective in which it waits for them.
Example: `with FileLock("results.json.lock"): worst = all_reduce(loss)` on all ranks.
Fix: call the collective before or after the lock, or take the lock on one rank alone.
Certain when: the kernel names the holder, and it is the only lock that they may wait for.
Possible when: likely, where other programs hold lock files as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.evidence_lines import operation_of
from unhang.causes.wording.stall_signal import stall_signal, waiters_line
from unhang.facts.laggard.file_lock_cycle import FileLockCycle
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.DEADLOCK_ORDER


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards at a lock file that one of those who wait for them holds."""
    for at, found in laggards_doing(facts, FileLockCycle):
        stall = at.stall
        ranks = tuple(sorted((*stall.laggards, found.holder)))
        yield stall_signal(
            CAUSE,
            Grade.RECORD,
            say(
                "{ranks:who} {ranks:waits|wait} for the file lock that rank {holder} holds, which waits for "
                "{ranks:it|them} in {operation}",
                ranks=stall.laggards,
                holder=found.holder,
                operation=operation_of(stall.call),
            ),
            facts,
            stall,
            ranks=ranks,
            whole=found.only,
            phase=Phase.COMMUNICATION,
            because=(
                *waiters_line(stall),
                say(
                    "{path} is locked by process {pid}, which is rank {holder}",
                    path=found.lock.path,
                    pid=found.lock.pid,
                    holder=found.holder,
                ),
            ),
            remedies=(remedy("avoid-collective-under-lock"),),
        )
