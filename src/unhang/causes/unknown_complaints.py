"""unknown: libraries complain, and nothing that was read tells what was behind it.

What happens: connections were closed, NCCL reported an error, a watchdog was blocked; no exception, no timeout.
Why it hangs: some process ended or froze first; these lines are what the others saw of it.
Example: `Call to recv failed : Connection reset by peer` on two nodes, and not a word from the rest.
Fix: collect the logs of all ranks and the launcher's, then ask again.
Certain when: never; it is the honest answer.
Possible when: always; silence of the others is not health.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.evidence.items import LogEvent
from unhang.facts.crashes import own_crashes
from unhang.facts.log_waits import incident_of
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt, hosts_in, quotes, ranks_in, saying
from unhang.facts.transport_lines import transport_trouble
from unhang.findings import Cause, Certainty, Remedy, Text, say
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNKNOWN


def check(facts: Facts) -> Iterator[Answer]:
    """The first kind of complaint that is there, when nothing better is."""
    if incident_of(facts) is not None or facts.stalls or facts.symmetric or own_crashes(facts):
        return
    trouble = transport_trouble(facts)
    stuck = saying(facts, "stuck", "gil")
    gone = saying(facts, "peer-gone", "network", "connect")
    failed = saying(facts, "async-error", "nccl-error", "aborted", "cuda-error", "call-path", "warning")
    waiting = saying(facts, "waiting", "timeout")
    inside = facts.events_of("look.native")
    truncated = first_attempt(facts.events_of("n.truncated"))
    if trouble is not None and trouble.one_peer is not None:
        yield _found(
            trouble.events,
            say("all network errors name one peer, {peer}: it is dead, frozen or cut off", peer=trouble.one_peer),
        )
    elif truncated:
        yield _found(
            truncated,
            say(
                "peers sent different amounts: other sizes, another order of calls, another NCCL, or a stranger's bytes"
            ),
        )
    elif stuck:
        yield _found(
            stuck,
            say("the watchdog was blocked: a CUDA or NCCL call, or the interpreter lock, did not come back"),
            ranks_in(stuck)[:1],
        )
    elif gone:
        yield _found(
            gone, say("connections between ranks failed or were closed; nothing tells who ended first, or why")
        )
    elif failed:
        yield _found(failed, say("a library reports an error, and nothing tells what was behind it"))
    elif waiting:
        yield _found(waiting, say("somebody waited for too long; nothing tells for whom"))
    elif inside:
        yield _found(inside, say("threads stand inside NCCL, and nothing complains: what they wait for is not told"))


def _found(events: tuple[LogEvent, ...], summary: Text, ranks: tuple[int, ...] = ()) -> Answer:
    return finding(
        CAUSE,
        Certainty.POSSIBLE,
        summary,
        ranks=ranks,
        nodes=hosts_in(events),
        because=(say("such lines are often an echo: the first process to end or freeze prints something else"),),
        evidence=quotes(events),
        remedies=(_collect(),),
    )


def _collect() -> Remedy:
    return remedy("collect-what-the-other-ranks-and-the")
