"""slow-data-loading: in logs alone: a loader's own limit passed, or one rank's last words are about fetching data.

What happens: all ranks printed the same step; then one of them asks for the next shard and nobody says anything more.
Why it hangs: that rank has no batch, the others wait for it in the step's first collective.
Example: seven ranks end with `step: 2690`, rank 3 with `HTTP Request: GET …c4-train.00002-of-01024.json.gz`.
Fix: copy the data near the job, give reads and the loader a timeout and retries.
Certain when: never from logs alone.
Possible when: that rank's log simply ends a moment later than the others'.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.last_words import LastWords, last_words
from unhang.facts.log_waits import incident_of
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt, quotes, ranks_in
from unhang.findings import Cause, Certainty, Phase, Remedy, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SLOW_DATA_LOADING


def check(facts: Facts) -> Iterator[Answer]:
    """The loader's own timeout; then the last words of a minority."""
    limits = first_attempt(facts.events_of("dl.timeout", "k.nfs"))
    if limits:
        ranks = ranks_in(limits)
        yield finding(
            CAUSE,
            Certainty.LIKELY,
            say("data did not come: the file server or a loader worker did not answer in time"),
            ranks=ranks,
            nodes=hosts_of(facts, ranks),
            phase=Phase.DATA,
            because=(say("the line quoted says so; collective timeouts follow from it"),),
            evidence=quotes(limits),
            remedies=(_nearer(),),
        )
        return
    words = _fetching(facts)
    if words:
        yield _last_words(facts, words)


def _fetching(facts: Facts) -> tuple[LastWords, ...]:
    """A minority of ranks whose last line is about data, after steps, when nobody failed by itself."""
    if any(k.recording is not None or k.stack is not None for k in facts.ranks.values()) or own_crashes(facts):
        return ()
    stepping = {rank for rank, known in facts.ranks.items() if known.progress}
    incident = incident_of(facts)
    waited = incident.rank_set if incident is not None else ()  # they had their batch and waited for others
    words = tuple(w for w in last_words(facts) if w.phase is Phase.DATA and w.rank in stepping and w.rank not in waited)
    return words if words and len(words) * 2 < len(stepping) else ()


def _last_words(facts: Facts, words: tuple[LastWords, ...]) -> Answer:
    ranks = tuple(sorted({w.rank for w in words if w.rank is not None}))
    return finding(
        CAUSE,
        Certainty.POSSIBLE,
        say("possible: {ranks:who} {ranks:was|were} fetching data when everything stopped", ranks=ranks),
        ranks=ranks,
        nodes=hosts_of(facts, ranks),
        phase=Phase.DATA,
        because=(
            say("all ranks had finished the same step; the last words of {ranks:who} are about data", ranks=ranks),
        ),
        evidence=tuple(w.evidence for w in words[:3]),
        remedies=(_nearer(),),
    )


def _nearer() -> Remedy:
    return remedy("bring-the-data-nearer-and-let-reads")
