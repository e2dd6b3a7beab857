"""network-fault: in a look from a live job on several nodes: a node is cut off from the others while the job runs.

What happens: the watcher of a node says nothing any more, and its machine, which had answered, does not answer either.
Why it hangs: its ranks are not heard; every other rank waits in a collective that needs them.
Example: a switch port goes down; node h2 is silent for 8 s, ranks 16-23 are on it, all others wait in all_reduce.
Fix: find the link, the port or the machine, and start again without that node.
Certain when: never: a machine that lost power does not answer either.
Possible when: its machine never answered, so that a firewall may be why it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unhang.causes.detector import DetectorResult, make_signal
from unhang.facts.model import Facts, RankState
from unhang.findings import Cause, Ending, Evidence, Grade, NotChecked
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.wire.documents.other_nodes import ObservedNode

CAUSE = Cause.NETWORK_FAULT


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Silent nodes that the others wait for; a silent watcher whose machine answers could only not be asked."""
    silent = [node for node in facts.nodes if node.silent_s is not None and not node.came]
    gone = [node for node in silent if node.answers is False]
    for node in silent:
        if node not in gone:
            yield _not_sampled(node)
    if gone and _waited_for(facts, {rank for node in gone for rank in node.ranks}):
        yield _cut_off(facts, gone)


def _waited_for(facts: Facts, ranks: set[int]) -> bool:
    """Ranks of other nodes wait, and for nobody else as far as is known."""
    waiting = [rank for rank, known in facts.ranks.items() if rank not in ranks and known.state is RankState.WAITING]
    late = {rank for stall in facts.stalls for rank in stall.laggards}
    return bool(waiting) and late <= ranks and not any(facts.ranks[rank].exit for rank in facts.ranks)


def _cut_off(facts: Facts, gone: list[ObservedNode]) -> DetectorResult:
    ranks = tuple(sorted(rank for node in gone for rank in node.ranks))
    all_others = len(gone) > 1 and len(gone) == len(facts.nodes)
    names = ", ".join(node.name for node in gone[:4])
    summary = (
        say("this node is cut off from all others ({nodes})", nodes=names)
        if all_others
        else say("{nodes} is cut off: {ranks:who} on it cannot be reached", nodes=names, ranks=ranks)
    )
    return make_signal(
        CAUSE,
        Grade.ORDER,
        summary,
        whole=any(node.answered for node in gone),
        ending=Ending.CUT_OFF,
        ranks=() if all_others else ranks,
        nodes=tuple(node.name for node in gone) if not all_others else (),
        because=tuple(_because(gone)),
        evidence=tuple(
            Evidence(node.source, f"{node.name}: silent for {node.silent_s:.0f} s, its machine does not answer")
            for node in gone[:4]
        ),
        remedies=(remedy("exclude-unreachable-node", node=gone[0].name),),
    )


def _because(gone: list[ObservedNode]) -> Iterator[Text]:
    for node in gone[:4]:
        seconds = node.silent_s or 0.0
        if node.answered:
            yield say(
                "{node}: its watcher is silent for {seconds:.0f} s; its machine had answered and does not now",
                node=node.name,
                seconds=seconds,
            )
        else:
            yield say(
                "{node}: its watcher is silent for {seconds:.0f} s; whether its machine lives is not known",
                node=node.name,
                seconds=seconds,
            )
    yield say("no rank on the nodes that are heard is late")


def _not_sampled(node: ObservedNode) -> NotChecked:
    return NotChecked(
        what=say("ranks of node {node}", node=node.name),
        because=say("its watcher is silent for {seconds:.0f} s", seconds=node.silent_s or 0.0),
        how="unhang attach",
    )
