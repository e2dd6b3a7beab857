"""Where unhang itself failed on a part: said once for each failure, and never taken for health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unhang.findings import Cause, Certainty, Finding, NotChecked, Severity, Status, Verdict
from unhang.sentences import say


def join_gaps(_: object, verdict: Verdict) -> Verdict:
    """Tells each gap once, those first on which unhang itself failed; several failures in one place are one."""
    once: dict[str, NotChecked] = {}
    for gap in _join_failures(verdict.not_checked):
        once.setdefault(str(gap.what), gap)
    return replace(verdict, not_checked=tuple(once.values()))


def _join_failures(gaps: Sequence[NotChecked]) -> list[NotChecked]:
    """``gaps``, our own failures first; detectors that failed in one place are one gap that names all their causes."""
    kept: list[NotChecked] = []
    by_place: dict[str, int] = {}
    for gap in gaps:
        if not gap.failed or "causes" not in gap.what.values:
            kept.append(gap)
            continue
        at = by_place.setdefault(str(gap.because), len(kept))
        if at == len(kept):
            kept.append(gap)
            continue
        causes = dict.fromkeys((*str(kept[at].what.values["causes"]).split(", "), str(gap.what.values["causes"])))
        kept[at] = replace(kept[at], what=say("whether it is {causes}", causes=", ".join(causes)))
    return sorted(kept, key=lambda gap: not gap.failed)


def withdraw_health(_: object, verdict: Verdict) -> Verdict:
    """Calls nothing healthy where unhang failed on a part of it."""
    failed = any(item.failed for item in verdict.unread) or any(item.failed for item in verdict.not_checked)
    if not failed or verdict.status is not Status.HEALTHY:
        return verdict
    unknown = Finding(
        Cause.UNKNOWN,
        Certainty.POSSIBLE,
        Severity.NOTE,
        say("unhang failed on part of the input and found nothing wrong in the rest"),
        detector="failed",
    )
    return replace(verdict, status=Status.UNKNOWN, findings=(unknown, *verdict.findings), checked=(), health=None)
