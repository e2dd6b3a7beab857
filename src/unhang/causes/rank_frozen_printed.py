"""rank-frozen: in logs alone: torch itself says that a thread of this rank holds the interpreter lock.

What happens: the watchdog cannot take the lock within its time, or reports that it was stuck while another rank waits.
Why it hangs: a native call that keeps the lock lets no Python thread run, so the rank reaches no collective.
Example: `Could not acquire GIL within 300 ms on exit, possible GIL induced hang` on rank 2 alone.
Fix: look at the rank's native stack; release the lock around long native work.
Certain when: never from logs alone.
Possible when: the line stands at an ordinary exit.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.log_waits import incident_of
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt, hosts_in, quotes, ranks_in
from unhang.findings import Cause, Certainty, Remedy, say
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.RANK_FROZEN


def check(facts: Facts) -> Iterator[Answer]:
    """The lock's line on few ranks; with a blocked watchdog on the same rank it is likely."""
    locked = first_attempt(facts.events_of("gil"))
    if not locked:
        return
    stuck = set(ranks_in(facts.events_of("hb.stuck", "hb.old")))
    ranks = ranks_in(locked)
    incident = incident_of(facts)
    waiting = set(incident.ranks) if incident is not None else set()
    alone = bool(ranks) and not set(ranks) & waiting
    likely = bool(set(ranks) & stuck) or (alone and bool(waiting))
    yield finding(
        CAUSE,
        Certainty.LIKELY if likely else Certainty.POSSIBLE,
        say("a thread of {ranks:who} held the interpreter lock in a native call", ranks=ranks)
        if ranks
        else say("a thread held the interpreter lock in a native call"),
        ranks=ranks,
        nodes=hosts_in(locked),
        because=(say("torch could not take the lock within its time, and so could not run Python there"),),
        evidence=quotes(locked),
        remedies=(_native_stack(),),
    )


def _native_stack() -> Remedy:
    return remedy("see-which-native-call-keeps-the-lock")
