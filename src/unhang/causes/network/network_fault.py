"""network-fault: a link, a port or a network card failed while the job ran, or slows it down.

What happens: transfers that worked for hours are no longer answered; a port reports an error; a card is given up; or
all ranks joined a collective, none finished it, and the machine's counters show that a link was lost.
Why it hangs: NCCL retries until its own limit, or waits forever for data that never comes. Over a link that is only
slow, every rank moves at its pace.
Example: `mlx5_2:1 Got async event : port error` on two nodes after five hours, then completion error 12; or 38 % of the
segments of h3 had to be sent again.
Fix: find the link (ibstat, dmesg, switch counters) and start again without it; the configuration had worked.
Certain when: the card or the kernel itself reports that the link was lost.
Possible when: nothing shows how far the job had come; an interface only counted errors; or only the path between two
slow nodes is known. Errors that all name one peer are left to `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label
from unhang.causes.wording import machine_reasons
from unhang.causes.wording.signals import chosen_transport_reason, log_signal, ranks_if_few, transport_suspect
from unhang.facts.logs.event_timing import EventTiming
from unhang.facts.logs.log_statements import ranks_of_events
from unhang.facts.machine.machine_state import MachineSign, network_signs
from unhang.facts.machine.transport_errors import TransportErrors, transport_errors
from unhang.facts.model import Facts, RankState
from unhang.facts.pace.slow_links import SlowLink, slow_link
from unhang.facts.pace.slow_rank_over_time import lies_between
from unhang.facts.pace_change import AllWait
from unhang.findings import Cause, Ending, Evidence, Grade, NotChecked, Severity
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text
from unhang.wire.documents.other_nodes import ObservedNode

CAUSE = Cause.NETWORK_FAULT
tell = Sentences("causes/network-fault.toml")
_LINK = ("n.ibasync", "n.ibresil", "k.mlx5")
_EXCLUDE_BAD_LINK = "exclude-faulty-link"


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Trouble of the way itself after the way had worked, what machines count while all wait, a slow link."""
    yield from _complaints(facts)
    yield from _counted(facts)
    yield from _slow(facts)
    yield from transport_suspect(facts, "test-node-network", "NET")


def _complaints(facts: Facts) -> Iterator[DetectorResult]:
    trouble = transport_errors(facts)
    if trouble is None or trouble.partner_ended or trouble.one_peer is not None:
        # Errors that all name one peer tell of that side: dead, frozen or cut off.
        return
    link = [e for e in trouble.events if e.kind in _LINK]
    told = (link or trouble.events)[0].text.strip()[-100:]
    if any(e.kind == "k.mlx5" for e in link):
        yield _found(facts, trouble, Grade.KERNEL, tell("link-failed", error=told))
    elif link:
        yield _found(facts, trouble, Grade.STATED, tell("link-failed", error=told), whole=False)
    elif trouble.stage is EventTiming.RUNNING and not trouble.connecting:
        yield _found(facts, trouble, Grade.ORDER, tell("failed-after-work", error=told))
    elif trouble.few_of_many:
        yield _found(facts, trouble, Grade.ORDER, tell("not-connected", ranks=ranks_of_events(trouble.events)))
    elif trouble.stage is not EventTiming.FIRST_USE:
        yield _found(facts, trouble, Grade.ORDER, tell("nothing-tells"), whole=False)


def _found(
    facts: Facts, trouble: TransportErrors, grade: Grade, summary: Text, *, whole: bool = True
) -> DetectorResult:
    signs = network_signs(facts)
    return log_signal(
        grade,
        summary,
        trouble.events,
        _EXCLUDE_BAD_LINK,
        whole=whole,
        ranks=ranks_if_few(ranks_of_events(trouble.events)),
        because=(*_because(trouble), *machine_reasons.because(signs)),
        more_evidence=machine_reasons.evidence(signs),
    )


def _because(trouble: TransportErrors) -> Iterator[Text]:
    if trouble.stage is EventTiming.RUNNING and not trouble.connecting:
        yield tell("steps-had-finished")
    if trouble.few_of_many:
        yield tell("set-up-right")


def _counted(facts: Facts) -> Iterator[DetectorResult]:
    """Where all joined and nobody is behind: a link that was lost, segments sent again, errors of an interface."""
    if facts.graph.edges or not facts.all_joined_stalls:
        return
    signs = sorted(network_signs(facts), key=lambda sign: sign.kind == "link-errors")
    if not signs:
        return
    stall = facts.all_joined_stalls[0]
    only_errors = signs[0].kind == "link-errors"
    yield make_signal(
        Grade.ORDER if only_errors else Grade.KERNEL,
        _summary(signs[0]),
        whole=False,
        nodes=tuple(dict.fromkeys(sign.node for sign in signs)),
        group=group_label(facts, stall.group),
        because=(*machine_reasons.because(signs), *chosen_transport_reason(facts), tell("same-call")),
        evidence=machine_reasons.evidence(signs),
        remedies=(remedy(_EXCLUDE_BAD_LINK),),
    )


def _summary(sign: MachineSign) -> Text:
    if sign.kind == "link-lost":
        return tell("link-lost", link=sign.values["link"], node=sign.node)
    if sign.kind == "sent-again":
        return tell("sent-again", percent=sign.values["percent"], node=sign.node)
    return tell("counts-errors", link=sign.values["link"], node=sign.node)


def _slow(facts: Facts) -> Iterator[DetectorResult]:
    """Only where nobody stalls and no rank is late."""
    slow = facts.all_slower
    if slow is None or facts.graph.edges or facts.all_joined_stalls or facts.straggler is not None:
        return
    link = slow_link(facts) if lies_between(slow) else None
    if link is None or not any(known.moving for known in facts.ranks.values()):
        return
    one = len(link.nodes) == 1
    signs = [sign for sign in network_signs(facts) if sign.node in link.nodes]
    yield make_signal(
        Grade.ORDER,
        tell("pace-of-link" if one else "pace-between", node=link.nodes[0], nodes=", ".join(link.nodes)),
        whole=one,
        severity=Severity.SLOWS,
        nodes=link.nodes,
        because=(*_why_slow(slow, link), *machine_reasons.because(signs)),
        evidence=(*_queues(facts, link), *machine_reasons.evidence(signs)),
        remedies=(remedy(_EXCLUDE_BAD_LINK),),
    )


def _why_slow(slow: AllWait, link: SlowLink) -> Iterator[Text]:
    yield tell(
        "pace-since", step=slow.change.step, since=f"{slow.change.since_s:.2g}", before=f"{slow.change.before_s:.2g}"
    )
    yield tell("all-wait", percent=round(100 * slow.waits), looks=slow.samples)
    yield tell("send-queue", ranks=link.ranks, ways=", ".join(way.replace(">", " > ") for way in link.ways[:4]))


def _queues(facts: Facts, link: SlowLink) -> Iterator[Evidence]:
    for rank in link.ranks[:3]:
        known = facts.ranks[rank]
        if known.stack is not None:
            yield Evidence(known.stack.source, ", ".join(known.process.piled_up[:4]), rank)


# ---------------------------------------------------------------------------------------------------
# a node that is cut off


def detect_cut_off(facts: Facts) -> Iterator[DetectorResult]:
    """Silent nodes that the others wait for, and whose machine does not answer either; a silent watcher whose machine
    answers could only not be asked. Never certain: a machine that lost power does not answer either.
    """
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
    summary = tell("cut-off-self" if all_others else "cut-off", nodes=names, ranks=ranks)
    return make_signal(
        Grade.ORDER,
        summary,
        whole=any(node.answered for node in gone),
        ending=Ending.CUT_OFF,
        ranks=() if all_others else ranks,
        nodes=tuple(node.name for node in gone) if not all_others else (),
        because=tuple(_because_cut_off(gone)),
        evidence=tuple(
            Evidence(node.source, f"{node.name}: silent for {node.silent_s:.0f} s, its machine does not answer")
            for node in gone[:4]
        ),
        remedies=(remedy("exclude-unreachable-node", node=gone[0].name),),
    )


def _because_cut_off(gone: list[ObservedNode]) -> Iterator[Text]:
    for node in gone[:4]:
        seconds = node.silent_s or 0.0
        yield tell("answered-before" if node.answered else "answers-unknown", node=node.name, seconds=seconds)
    yield tell("nobody-late")


def _not_sampled(node: ObservedNode) -> NotChecked:
    return NotChecked(
        what=tell("ranks-of-node", node=node.name),
        because=tell("watcher-silent", seconds=node.silent_s or 0.0),
        how="unhang attach",
    )
