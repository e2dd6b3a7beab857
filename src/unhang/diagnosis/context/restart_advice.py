"""Whether to run again as it is, after a change, or without a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unhang.diagnosis.context.resume_checkpoints import last_complete, torn_since
from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.findings import Cause, Certainty, Ending, Finding, RemedyKind, Restart, Severity
from unhang.sentences import say

_PROGRAM = {
    Cause.UNEVEN_DATA,
    Cause.RANK_CONDITIONAL_COLLECTIVE,
    Cause.COLLECTIVE_MISMATCH,
    Cause.DEADLOCK_ORDER,
    Cause.TIMEOUT_TOO_SHORT,
    Cause.SINGLE_RANK_WORK,
    Cause.GPU_OOM,
    Cause.HOST_MEMORY,
    Cause.NETWORK_CONFIG,
    Cause.DEVICE_MAPPING,
    Cause.VERSION_MISMATCH,
    Cause.RENDEZVOUS,
    Cause.P2P_BROKEN,
}


def restart_after(findings: tuple[Finding, ...], checkpoints: Sequence[Checkpoint] = ()) -> Restart:
    """The advice that follows from the leading finding, and from which of ``checkpoints`` (newest first) to go on."""
    whole = last_complete(checkpoints)
    return replace(
        _advice(findings),
        last_complete_checkpoint=whole.path if whole is not None else None,
        torn_checkpoints=torn_since(checkpoints),
    )


def _advice(findings: tuple[Finding, ...]) -> Restart:
    stopping = [f for f in findings if f.severity is Severity.STOPS]
    if not stopping and any(f.cause is Cause.COLLECTIVE_MISMATCH and f.severity is Severity.SLOWS for f in findings):
        return Restart("after-change", because=say("it goes on, but what it computes is wrong"))
    slow = [
        f
        for f in findings
        if f.severity is Severity.SLOWS and f.certainty is not Certainty.POSSIBLE and f.cause is not Cause.UNKNOWN
    ]
    if not stopping and any(f.remedies for f in slow):
        return Restart("after-change", because=say("it would be as slow again"))
    if not stopping and any(f.cause is Cause.UNKNOWN for f in findings):
        return Restart("unknown", because=say("nothing shows that it went well"))
    if not stopping:
        return Restart("as-is", because=say("nothing was found that would stop it again"))
    lead = stopping[0]
    if lead.certainty is Certainty.POSSIBLE or lead.cause is Cause.UNKNOWN:
        return Restart("unknown", because=say("the cause is not known well enough"))
    if lead.cause is Cause.GPU_HARDWARE and lead.nodes:
        return Restart("without-node", lead.nodes, because=say("the hardware fault stays with the node"))
    if lead.ending is Ending.CUT_OFF and lead.ranks:
        return Restart("without-node", lead.nodes, because=say("the node cannot be reached"))
    if lead.cause in _PROGRAM:
        return Restart("after-change", because=say("it would stall again in the same place"))
    # A rank that keeps the interpreter lock has code to change, whatever the machine's remedies beside it are.
    if lead.cause is Cause.RANK_FROZEN and all(r.kind is not RemedyKind.CODE for r in lead.remedies):
        return Restart("as-is", because=say("a rank was held from outside; nothing in the program has to change"))
    return Restart("after-change", because=say("see the first remedy"))
