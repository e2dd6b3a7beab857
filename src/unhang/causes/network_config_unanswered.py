"""network-config: in a look at a live rank: it tries to connect to another rank, and nothing answers.

What happens: while a group is made each rank tells the others its address; a rank asks for a connection to such an
address, and its kernel still waits for the first answer.
Why it hangs: the address does not lead to the other node: the wrong interface, a second network, a bridge, or a
firewall that drops what it does not know.
Example: `GLOO_SOCKET_IFNAME=eth1`, a network without a gateway: both ranks stand in `init_process_group`.
Fix: name the interface that leads to the other nodes, or repair the name the node is called by; open the ports.
Certain when: never: a rank that was just stopped does not answer either.
Possible when: not all ranks of the job were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.model import Facts, RankFacts
from unhang.facts.progress_from_stacks import in_collective
from unhang.findings import Cause, Certainty, Phase, say
from unhang.rules.evidence_lines import hosts_of, place_of, quote_rank
from unhang.rules.interface_choice import name_the_interface, search_the_setting
from unhang.rules.rule import Answer, finding

CAUSE = Cause.NETWORK_CONFIG
_MAKES_A_GROUP, _MAKES_THE_STORE = "_new_process_group_helper", "_create_c10d_store"


def check(facts: Facts) -> Iterator[Answer]:
    """All such ranks in one finding."""
    ranks = tuple(rank for rank, known in sorted(facts.ranks.items()) if known.alive and _connects(known))
    if not ranks:
        return
    peers = sorted({peer for rank in ranks for peer in facts.ranks[rank].unanswered})
    yield finding(
        CAUSE,
        Certainty.LIKELY,
        say("{ranks:who} {ranks:tries|try} to connect to {peer}, and nothing answers", ranks=ranks, peer=peers[0]),
        nodes=hosts_of(facts, ranks),
        phase=Phase.INIT,
        where=place_of(facts, ranks[0]),
        because=(
            say("the others have come: the address is what one of them told, and it does not lead there"),
            *((say("addresses without an answer: {peers}", peers=", ".join(peers[:4])),) if len(peers) > 1 else ()),
        ),
        evidence=tuple(quote for rank in ranks[:3] for quote in quote_rank(facts.ranks[rank])),
        remedies=(search_the_setting(), name_the_interface()),
    )


def _connects(known: RankFacts) -> bool:
    """To another rank, not to the store: it makes a group, or stands in a collective that makes its connections."""
    if not known.unanswered or known.stack is None:
        return False
    functions = {frame.function for thread in known.stack.threads for frame in thread.frames}
    if _MAKES_THE_STORE in functions:
        return False
    return _MAKES_A_GROUP in functions or in_collective(known.activity)
