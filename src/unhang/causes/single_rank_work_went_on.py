"""single-rank-work: in logs alone: one rank went on writing lines while all others waited.

What happens: the ranks that give up print no line during their wait, the one that does not give up prints its own.
Why it hangs: it is alive and busy with something that only it does; it comes to the collective when that is done.
Example: rank 0 writes `generated 1790/2048` two seconds before the others' limit of 600 s passes.
Fix: let all ranks share the work, do it outside the loop, or give the wait a limit that fits.
Certain when: never from logs alone: the rank's stack is not seen.
Possible when: its lines count nothing; then another thread may have written them.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.log_waits import incident_of
from unhang.facts.model import Facts
from unhang.facts.went_on import WentOn, went_on
from unhang.findings import Cause, Certainty, Remedy, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SINGLE_RANK_WORK


def check(facts: Facts) -> Iterator[Answer]:
    """Where no dump or stack tells more and nobody failed by itself."""
    if any(k.recording is not None or k.stack is not None for k in facts.ranks.values()) or own_crashes(facts):
        return
    work = went_on(facts)
    if work is not None and not facts.disagreements:
        yield _found(facts, work)


def _found(facts: Facts, work: WentOn) -> Answer:
    incident = incident_of(facts)
    waits = incident.waits if incident is not None else ()
    return finding(
        CAUSE,
        Certainty.LIKELY if work.counts else Certainty.POSSIBLE,
        say(
            "rank {rank} was still writing lines {after:.0f} s after the others had begun to wait, "
            "and did not time out",
            rank=work.rank,
            after=work.after_s,
        ),
        ranks=(work.rank,),
        nodes=hosts_of(facts, (work.rank,)),
        phase=work.phase,
        because=(
            say("a rank that waits in a collective writes nothing: it was busy with work of its own"),
            say("the others waited {wait:.0f} s, their whole limit", wait=work.wait_s),
        ),
        evidence=(work.evidence, *(w.evidence for w in waits[:2])),
        remedies=(_share(work.rank), _longer()),
    )


def _share(rank: int) -> Remedy:
    return remedy("take-this-work-off-rank-or-let", rank=rank)


def _longer() -> Remedy:
    return remedy("if-it-must-stay-there-give-the")
