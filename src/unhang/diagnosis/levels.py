"""How bad work of one rank is: it slows the job down until the job's own limit ends it."""

from __future__ import annotations

from dataclasses import replace

from unhang.facts.model import Facts
from unhang.findings import Cause, Severity, Status, Verdict

WORK = frozenset((Cause.SINGLE_RANK_WORK, Cause.SLOW_DATA_LOADING, Cause.TIMEOUT_TOO_SHORT, Cause.SLOW_RANK))
"""The laggard gets on by itself."""
SLOW = "slow"


def at_recorded_level(verdict: Verdict, facts: Facts) -> Verdict:
    """``verdict``, milder where its evidence was taken long before the job's limit and its laggard works."""
    if not any(manifest.level == SLOW for manifest in facts.manifests):
        return verdict
    return as_slow(verdict)


def as_slow(verdict: Verdict) -> Verdict:
    """The same findings, but work of a laggard only slows the job down."""
    if not verdict.findings or verdict.findings[0].cause not in WORK:
        return verdict
    findings = tuple(
        replace(f, severity=Severity.SLOWS) if f.severity is Severity.STOPS and f.cause in WORK else f
        for f in verdict.findings
    )
    return replace(verdict, status=Status.SLOW, findings=findings)
