"""The same host or card again: what verdicts of earlier runs add to this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.evidence.own_files.earlier_verdicts import EarlierSuspect, gpus_named
from unhang.facts.model import Facts
from unhang.findings import Cause, Finding, Restart, Severity
from unhang.knowledge.numbers import utc_time
from unhang.sentences import Text, say

STAYS_WITH_HOST = (Cause.GPU_HARDWARE, Cause.NETWORK_FAULT, Cause.P2P_BROKEN, Cause.SLOW_RANK, Cause.HOST_MEMORY)
_MAY_BE_THE_HOST = (*STAYS_WITH_HOST, Cause.RANK_FROZEN, Cause.RANK_CRASHED, Cause.UNKNOWN)


def note_repeats(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, the first with a reason more where its host or card was named before."""
    if not findings or findings[0].severity is Severity.NOTE or findings[0].cause not in _MAY_BE_THE_HOST:
        return findings
    lead = findings[0]
    notes = tuple(_note(guilt) for guilt in _named_before(facts, lead))
    return (replace(lead, because=(*lead.because, *notes)), *findings[1:]) if notes else findings


def exclude_repeated_host(facts: Facts, findings: tuple[Finding, ...], restart: Restart) -> Restart:
    """``restart`` without the host that was named again, in a job of several."""
    if not findings or findings[0].cause not in STAYS_WITH_HOST or restart.advice == "without-node":
        return restart
    again = {guilt.name for guilt in _named_before(facts, findings[0]) if guilt.kind == "host"}
    if not again or len(_hosts(facts)) < 2:
        return restart
    because = say("verdicts of earlier runs named {hosts} too", hosts=", ".join(sorted(again)))
    return replace(restart, advice="without-node", exclude_nodes=tuple(sorted(again)), because=because)


def _named_before(facts: Facts, lead: Finding) -> Iterator[EarlierSuspect]:
    hosts = set(lead.nodes) | {facts.ranks[r].host or "" for r in lead.ranks if r in facts.ranks}
    if lead.cause is Cause.UNKNOWN and not lead.ranks:
        hosts = _hosts(facts)
    cards = gpus_named(" ".join(item.text for item in lead.evidence), hosts)
    for guilt in facts.earlier:
        if (guilt.name in hosts) if guilt.kind == "host" else (guilt.name in cards):
            yield guilt


def _hosts(facts: Facts) -> set[str]:
    return {rank.host for rank in facts.ranks.values() if rank.host}


def _note(guilt: EarlierSuspect) -> Text:
    last = utc_time(guilt.last_s)
    return say(
        "verdicts have named {name} before (runs: {runs}; last on {day}: {cause})",
        name=guilt.name,
        runs=guilt.runs,
        day=last.date().isoformat() if last is not None else "?",
        cause=guilt.cause,
    )
