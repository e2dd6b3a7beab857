"""network-fault: a link, a port or a network card failed while the job ran.

What happens: transfers that worked for hours are no longer answered; a port reports an error; a card is given up.
Why it hangs: NCCL retries until its own limit, or waits for ever for data that never comes.
Example: `mlx5_2:1 Got async event : port error` on two nodes after five hours, then completion error 12.
Fix: find the link (ibstat, dmesg, switch counters), start again without it; the configuration had worked.
Certain when: the card or the kernel itself reports the link's loss.
Possible when: nothing tells how far the job was. Errors that all name one peer are left to `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.evidence.items import LogEvent
from unhang.facts.machine_state import network_signs
from unhang.facts.model import Facts
from unhang.facts.said import hosts_in, quotes, ranks_in
from unhang.facts.stages import Stage
from unhang.facts.transport_lines import TransportTrouble, transport_trouble
from unhang.findings import Cause, Certainty, Remedy, Text, say
from unhang.rules import machine_lines
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.NETWORK_FAULT
_LINK = ("n.ibasync", "n.ibresil", "k.mlx5")


def check(facts: Facts) -> Iterator[Answer]:
    """Trouble of the way itself, after the way had worked."""
    trouble = transport_trouble(facts)
    if trouble is None or trouble.echo or trouble.one_peer is not None:
        # Errors that all name one peer tell of that side: dead, frozen or cut off, `unknown` says so.
        return
    link = [e for e in trouble.events if e.kind in _LINK]
    if link:
        yield _found(
            facts,
            trouble,
            Certainty.CERTAIN if any(e.kind == "k.mlx5" for e in link) else Certainty.LIKELY,
            say("a network port or link failed: {error}", error=link[0].text.strip()[-100:]),
        )
    elif trouble.stage is Stage.RUNNING and not trouble.connecting:
        yield _found(
            facts,
            trouble,
            Certainty.LIKELY,
            say("the network failed after it had worked: {error}", error=_last(trouble)),
        )
    elif trouble.few_of_many:
        yield _found(
            facts,
            trouble,
            Certainty.LIKELY,
            say(
                "{ranks:who} could not connect; other ranks that were read do not complain",
                ranks=ranks_in(trouble.events),
            ),
        )
    elif trouble.stage is Stage.UNKNOWN or (trouble.stage is Stage.RUNNING and trouble.connecting):
        yield _found(
            facts, trouble, Certainty.POSSIBLE, say("possible: the network failed; nothing tells whether it had worked")
        )


def _last(trouble: TransportTrouble) -> str:
    return trouble.events[0].text.strip()[-100:]


def _found(facts: Facts, trouble: TransportTrouble, certainty: Certainty, summary: Text) -> Answer:
    signs = network_signs(facts)
    return finding(
        CAUSE,
        certainty,
        summary,
        ranks=_ranks(trouble.events),
        nodes=hosts_in(trouble.events),
        because=(*_because(trouble), *machine_lines.because(signs)),
        evidence=(*quotes(trouble.events), *machine_lines.evidence(signs)),
        remedies=(look_at_links(),),
    )


def _ranks(events: tuple[LogEvent, ...]) -> tuple[int, ...]:
    ranks = ranks_in(events)
    return ranks if len(ranks) <= 2 else ()


def _because(trouble: TransportTrouble) -> Iterator[Text]:
    if trouble.stage is Stage.RUNNING and not trouble.connecting:
        yield say("steps had been finished over the same connections, so the configuration was right")
    if trouble.few_of_many:
        yield say("so the network as a whole is set up right, and one link or node is not")


def look_at_links() -> Remedy:
    """For whoever looks after the nodes named."""
    return remedy("find-the-link-or-card-and-start")
