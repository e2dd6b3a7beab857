"""deadlock-order: in logs alone: the pipeline schedule's last actions are sends on all ranks.

What happens: each rank was about to send and has the receive of its partner's data still before it.
Why it hangs: a send of a large tensor ends only when its partner receives; nobody gets that far.
Example: rank 0 `action 0SEND_F1` and rank 1 `action 1SEND_F0`, both with a RECV among the pending actions.
Fix: post receives first, or batch_isend_irecv; another schedule.
Certain when: never from logs alone.
Possible when: a rank of the pipeline left no schedule line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.evidence.items import LogEvent
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt, quotes
from unhang.findings import Call, Cause, Certainty, Phase, Remedy, say
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.DEADLOCK_ORDER
_ACTION = re.compile(r"\d+(?P<kind>SEND|RECV)_")


def check(facts: Facts) -> Iterator[Answer]:
    """All ranks' last schedule lines are sends, or all are receives."""
    last: dict[int, LogEvent] = {}
    for event in first_attempt(facts.events_of("pp.action")):
        if event.rank is not None:
            last[event.rank] = event
    kinds = {rank: found["kind"] for rank, e in last.items() if (found := _ACTION.match(str(e.values["action"])))}
    if len(kinds) < 2 or len(kinds) != len(last) or len(set(kinds.values())) != 1:
        return
    ranks = tuple(sorted(kinds))
    sending = "SEND" in kinds.values()
    complete = facts.world_size in (None, len(ranks))
    yield finding(
        CAUSE,
        Certainty.LIKELY if complete else Certainty.POSSIBLE,
        say("{ranks:who} all wait in a send; nobody has reached its receive", ranks=ranks)
        if sending
        else say("{ranks:who} all wait in a receive; nobody sends", ranks=ranks),
        ranks=ranks,
        phase=Phase.COMMUNICATION,
        calls=tuple(Call((rank,), kinds[rank].lower()) for rank in ranks),
        because=(
            say("the last action of each rank's schedule is of the same kind, and its partner's half comes later"),
        ),
        evidence=quotes(last[rank] for rank in ranks),
        remedies=(_batch(),),
    )


def _batch() -> Remedy:
    return remedy("pair-every-send-with-a-receive-that-2")
