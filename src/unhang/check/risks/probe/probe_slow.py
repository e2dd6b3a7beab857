"""Collectives that finish, and crawl; one pair or one rank that is slower than all others.

What happens: the bandwidth is below what the worst healthy link of its kind carries, or one pair far below the rest.

Why it hangs: every collective waits for its slowest link. A gradient that takes minutes instead of milliseconds reaches
the limit, and nothing in the job looks wrong.

Example: traffic over a 1 Gbit/s management port beside a 100 Gbit/s one; a card whose PCIe link came up with one lane.

Fix: choose the right interface, or repair the link; `unhang bisect` tries the settings there are.

Certain when: never; another job may have been in the way.

Possible when: NCCL; nothing of it was run where this was written.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.probe_results.expected_speed import MB, SlowCollectives, fastest, find_slow_collectives
from unhang.check.probe_results.probe_results import ProbeResult
from unhang.check.probe_results.slow_pairs import SlowPairs, slow_pairs
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Finding, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "probe"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Compare with what such a link should give, and pairs with each other."""
    probed = here.found(ProbeResult)
    if probed is None or probed.failure is not None:
        return
    crawl, slow = find_slow_collectives(probed), slow_pairs(probed)
    if crawl is not None:
        yield _crawls(probed, crawl)
    for found in slow:
        yield _beside_others(probed, found)
    if crawl is None and not slow:
        yield from _fine(probed)


def _fine(probed: ProbeResult) -> Iterator[PassedCheck]:
    best = fastest(probed)
    if best is None:
        return
    latency = min(step.call_s for step in probed.steps if step.call_s)
    yield PassedCheck(
        CHECK,
        say(
            "{operation} carries {bus:.0f} MB/s (bus bandwidth as nccl-tests counts it), the shortest call takes "
            "{latency:.0f} µs",
            operation=best[0].operation,
            bus=best[1] / MB,
            latency=latency * 1e6,
        ),
    )
    if len(probed.pairs) > 2:
        bandwidths = sorted(pair.bandwidth / MB for pair in probed.pairs)
        yield PassedCheck(
            CHECK,
            say(
                "{count} pairs carry {least:.0f} to {most:.0f} MB/s, none far below the others",
                count=len(bandwidths),
                least=bandwidths[0],
                most=bandwidths[-1],
            ),
        )


def _certainty(probed: ProbeResult) -> Certainty:
    return Certainty.POSSIBLE if probed.backend == "nccl" else Certainty.LIKELY


def _crawls(probed: ProbeResult, crawl: SlowCollectives) -> Finding:
    because: list[Text] = []
    if probed.link is not None:
        because.append(
            say(
                "{interface} runs at {link:.0f} MB/s as its driver says; {floor:.0f} MB/s is little on it",
                interface=probed.interface,
                link=probed.link / MB,
                floor=crawl.floor / MB,
            )
        )
    else:
        because.append(
            say("less than {floor:.0f} MB/s is too little for any link of this kind", floor=crawl.floor / MB)
        )
    if any(step.left_out for step in probed.steps):
        because.append(say("Larger messages were left out: they would have outlasted the limit of a step"))
    network = probed.several_nodes or probed.backend == "gloo"
    return risk(
        CHECK,
        probed.interface or crawl.step.operation,
        Cause.NETWORK_CONFIG if network else Cause.P2P_BROKEN,
        say(
            "{operation} over {backend} crawls: {bus:.2f} MB/s between {ranks} ranks",
            operation=crawl.step.operation,
            backend=probed.backend,
            bus=crawl.bus / MB,
            ranks=probed.ranks,
        ),
        severity=Severity.SLOWS,
        certainty=_certainty(probed),
        because=tuple(because),
        remedies=(_bisect(),),
    )


def _beside_others(probed: ProbeResult, slow: SlowPairs) -> Finding:
    pair = slow.pairs[0] if slow.pairs else None
    ranks = slow.ranks or tuple(pair or ())
    own = [
        one.bandwidth for one in probed.pairs if set(one.ranks) & set(slow.ranks) or tuple(sorted(one.ranks)) == pair
    ]
    values = {"ranks": ranks, "own": max(own) / MB, "usual": slow.usual / MB}
    if slow.ranks:
        summary = say(
            "{ranks:who} {ranks:is|are} slow with every partner: {own:.0f} MB/s, others {usual:.0f} MB/s", **values
        )
    else:
        summary = say("Between {ranks:who} go {own:.0f} MB/s, between others {usual:.0f} MB/s", **values)
    several = len({probed.nodes[rank] for rank in ranks}) > 1 or (slow.ranks and probed.several_nodes)
    return risk(
        CHECK,
        ", ".join(probed.devices[rank] or str(rank) for rank in ranks) if probed.devices else "pairs",
        Cause.NETWORK_FAULT if several else Cause.SLOW_RANK if slow.ranks else Cause.P2P_BROKEN,
        summary,
        severity=Severity.SLOWS,
        certainty=_certainty(probed),
        ranks=ranks,
        nodes=tuple(dict.fromkeys(probed.nodes[rank] for rank in ranks)) if probed.several_nodes else (),
        because=(say("It was measured twice, the second time with nothing else under way"),),
        remedies=(
            Remedy(
                say("Look at the link of that card or node"),
                RemedyKind.COLLECT,
                say("nvidia-smi topo -m; nvidia-smi -q -d PERFORMANCE; ethtool of the interface"),
                say("none"),
                say("unhang check --only probe"),
            ),
        ),
    )


def _bisect() -> Remedy:
    return Remedy(
        say("Find the smallest setting that gets around it"),
        RemedyKind.COLLECT,
        say("unhang bisect"),
        say("some minutes at most; nothing is changed"),
        say("unhang check --only probe"),
    )
