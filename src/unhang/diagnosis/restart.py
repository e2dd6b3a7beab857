"""Whether to run again as it is, after a change, or without a node, and from which checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unhang.diagnosis.grades import names_cause
from unhang.diagnosis.lead_notes import hosts_of_job, named_before
from unhang.evidence.checkpoints import checkpoint as layouts
from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.facts.model import Facts
from unhang.findings import Cause, Ending, Finding, RemedyKind, Restart, Severity, TornCheckpoint, Verdict
from unhang.knowledge.reasoning_rows import causes_that
from unhang.sentences import Text, say


def advise_restart(facts: Facts, verdict: Verdict) -> Verdict:
    """Says whether to restart as it is, after a change or without a node, and from which checkpoint. A host that
    verdicts of earlier runs named too is left out.
    """
    restart = restart_after(verdict.findings, facts.checkpoints)
    return replace(verdict, restart=_without_repeated_host(facts, verdict.findings, restart))


def _without_repeated_host(facts: Facts, findings: tuple[Finding, ...], restart: Restart) -> Restart:
    """In a job of several hosts."""
    if not findings or findings[0].cause not in causes_that("stays-with-host") or restart.advice == "without-node":
        return restart
    again = {guilt.name for guilt in named_before(facts, findings[0]) if guilt.kind == "host"}
    if not again or len(hosts_of_job(facts)) < 2:
        return restart
    because = say("verdicts of earlier runs named {hosts} too", hosts=", ".join(sorted(again)))
    return replace(restart, advice="without-node", exclude_nodes=tuple(sorted(again)), because=because)


def restart_after(findings: tuple[Finding, ...], checkpoints: Sequence[Checkpoint] = ()) -> Restart:
    """The advice that follows from the leading finding, and from which of ``checkpoints`` (newest first) to go on."""
    whole = next((one for one in checkpoints if one.whole), None)
    return replace(
        _advice(findings),
        last_complete_checkpoint=whole.path if whole is not None else None,
        torn_checkpoints=_torn_since(checkpoints),
    )


def _advice(findings: tuple[Finding, ...]) -> Restart:
    stopping = [f for f in findings if f.severity is Severity.STOPS]
    if not stopping and any(f.cause is Cause.COLLECTIVE_MISMATCH and f.severity is Severity.SLOWS for f in findings):
        return Restart("after-change", because=say("it keeps running, but its results are wrong"))
    slow = [f for f in findings if f.severity is Severity.SLOWS and names_cause(f)]
    if not stopping and any(f.remedies for f in slow):
        return Restart("after-change", because=say("it would be just as slow again"))
    if not stopping and any(f.cause is Cause.UNKNOWN for f in findings):
        return Restart("unknown", because=say("there is no proof that it ran well"))
    if not stopping:
        return Restart("as-is", because=say("no problem was found that would stop it again"))
    lead = stopping[0]
    if not names_cause(lead):
        return Restart("unknown", because=say("the cause is not known well enough"))
    if lead.cause is Cause.GPU_HARDWARE and lead.nodes:
        return Restart("without-node", lead.nodes, because=say("the hardware fault stays with the node"))
    if lead.ending is Ending.CUT_OFF and lead.ranks:
        return Restart("without-node", lead.nodes, because=say("the node cannot be reached"))
    if lead.cause in causes_that("needs-change"):
        return Restart("after-change", because=say("it would stall again in the same place"))
    # A rank that keeps the interpreter lock has code to change, whatever the machine's remedies beside it are.
    if lead.cause is Cause.RANK_FROZEN and all(r.kind is not RemedyKind.CODE for r in lead.remedies):
        return Restart("as-is", because=say("a rank was held from outside; nothing in the program has to change"))
    return Restart("after-change")


_TORN_SHOWN = 3
_BECAUSE = {
    layouts.CUT_OFF: say("{detail} is cut off"),
    layouts.MISSING: say("{detail} is missing"),
    layouts.RANKS: say("only {detail} ranks wrote their part"),
    layouts.UNFINISHED: say("it was not finished: {detail}, which is written last, is missing or older"),
    layouts.NO_MARK: say("{detail} has no end mark, so it is not known whether it is complete"),
    layouts.REFUSED: say("it cannot be read ({detail})"),
}


def _torn_since(found: Sequence[Checkpoint]) -> tuple[TornCheckpoint, ...]:
    """Those newer than the last whole one, which a restart must not take."""
    torn = []
    for one in found:
        if one.whole:
            break
        because = _BECAUSE[one.flaw]
        torn.append(TornCheckpoint(one.path, Text(because.template, {"detail": one.detail or one.layout})))
    return tuple(torn[:_TORN_SHOWN])
