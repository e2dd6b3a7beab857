"""How bad work of one rank is: in a job that lives on it slows the others down, until their own limit is near."""

from __future__ import annotations

from dataclasses import replace

from unhang.evidence.items import BundleManifest
from unhang.facts.model import Facts
from unhang.facts.pending_limits import limit_at_s
from unhang.findings import Cause, Severity, Status, Verdict

WORK = frozenset((Cause.SINGLE_RANK_WORK, Cause.SLOW_DATA_LOADING, Cause.TIMEOUT_TOO_SHORT, Cause.SLOW_RANK))
"""The laggard gets on by itself."""
NEAR_S = 10.0
NEAR_SHARE = 0.2
"""The limit is near when so much of the wait is left."""


def at_moment_of_look(verdict: Verdict, facts: Facts) -> Verdict:
    """``verdict``, milder where a job that lived on was looked at while its laggard worked, far from its limit."""
    looked = next((manifest for manifest in facts.manifests if manifest.live and manifest.taken_s is not None), None)
    if looked is None or not verdict.findings or verdict.findings[0].cause not in WORK:
        return verdict
    idle = {process.rank for process in looked.processes if process.idle}
    if idle.issuperset(verdict.findings[0].ranks):
        return verdict
    return verdict if _limit_is_near(looked, facts) else _as_slow(verdict)


def _limit_is_near(looked: BundleManifest, facts: Facts) -> bool:
    at_s = limit_at_s(facts, looked.stalled_since_s)
    if at_s is None or looked.taken_s is None:
        return False
    left_s = at_s - looked.taken_s
    waited_s = max(0.0, looked.taken_s - (looked.stalled_since_s or looked.taken_s))
    return left_s <= max(NEAR_S, NEAR_SHARE * (left_s + waited_s))


def _as_slow(verdict: Verdict) -> Verdict:
    """The same findings, but work of a laggard only slows the job down."""
    findings = tuple(
        replace(f, severity=Severity.SLOWS) if f.severity is Severity.STOPS and f.cause in WORK else f
        for f in verdict.findings
    )
    return replace(verdict, status=Status.SLOW, findings=findings)
