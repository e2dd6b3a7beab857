"""What may carry a collective that all joined and none finished: suspects without evidence, each with its test."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.model import Facts, SymmetricStall
from unhang.facts.transport_chosen import transport_chosen
from unhang.findings import Cause, Certainty, Finding, Remedy, RemedyKind, say
from unhang.rules.evidence_lines import group_label
from unhang.rules.rule import finding

SUSPECTS = (Cause.NETWORK_FAULT, Cause.GPU_HARDWARE, Cause.P2P_BROKEN)
# Groups that never touch a GPU.
CPU_BACKENDS = {"gloo", "mpi", "ucc"}


def transport_suspects(facts: Facts, stall: SymmetricStall) -> Iterator[Finding]:
    """One *possible* finding each; on groups that no GPU takes part in only the network."""
    cpu = any(r.recording is not None and r.recording.backend in CPU_BACKENDS for r in facts.ranks.values())
    for cause in SUSPECTS[:1] if cpu else SUSPECTS:
        if not _may_carry(facts, cause):
            continue
        yield finding(
            cause,
            Certainty.POSSIBLE,
            say("possible, since all ranks joined and none finished; no direct evidence of it was given"),
            group=group_label(facts, stall.group),
            remedies=(_test_of(cause),),
        )


def _may_carry(facts: Facts, cause: Cause) -> bool:
    """False for a way that NCCL, as every rank's lines of the start tell, does not use."""
    chosen = transport_chosen(facts)
    if chosen is None or not chosen.all_told:
        return True
    if cause is Cause.P2P_BROKEN:
        return chosen.uses("P2P")
    one_node = len({known.host for known in facts.ranks.values()}) == 1
    return cause is not Cause.NETWORK_FAULT or chosen.uses("NET") or not one_node


def _test_of(cause: Cause) -> Remedy:
    if cause is Cause.NETWORK_FAULT:
        return Remedy(
            title=say("Test the network between the nodes by itself"),
            kind=RemedyKind.COLLECT,
            change=say(
                "nccl-tests' all_reduce_perf over these nodes, then over half of them; ib_write_bw or iperf3 by pairs"
            ),
            cost=say("some minutes on these nodes without the job"),
            verify=say("a pair or a half that stalls or is slow names the link"),
        )
    if cause is Cause.GPU_HARDWARE:
        return Remedy(
            title=say("Ask the driver and test the cards"),
            kind=RemedyKind.COLLECT,
            change=say("dmesg -T | grep -i xid on every node; dcgmi diag -r 3"),
            cost=say("some minutes on these nodes without the job"),
            verify=say("an Xid, or a test that fails, names the card"),
        )
    return Remedy(
        title=say("Run once without P2P"),
        kind=RemedyKind.ENVIRONMENT,
        change=say("NCCL_P2P_DISABLE=1; if the job then moves, P2P is broken on this machine"),
        cost=say("slower exchange between the GPUs of a machine; /dev/shm must be large enough"),
        verify=say("the job passes this place several times; without the setting it stalls again"),
        set={"NCCL_P2P_DISABLE": "1"},
    )
