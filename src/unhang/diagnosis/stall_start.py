"""When the stall began."""

from __future__ import annotations

from unhang.facts.model import Facts
from unhang.knowledge.numbers import TimeForm, time_text


def stalled_since(facts: Facts) -> str | None:
    """When the first waiter entered the call it is still in, as dumps or logs tell; None otherwise.

    ISO 8601 (UTC) where the evidence counts from the epoch or names its zone; else without a zone, and without a year
    where no line has one.
    """
    stalled = {stall.group for stall in facts.stalls} | {s.group for s in facts.all_joined_stalls}
    stalled |= {d.group for d in facts.mismatches}
    began = [
        (progress.pending.since_s, progress.pending.since_form)
        for name in stalled
        for progress in facts.groups[name].progress.values()
        if progress.pending is not None and progress.pending.since_s
    ]
    if not any(form is TimeForm.ZONE for _, form in began):
        began += [(m.stalled_since_s, TimeForm.ZONE) for m in facts.manifests if m.stalled_since_s]
    if not began:
        return None
    # the clocks of lines without a zone stand elsewhere: these are not compared with the others
    most = max(form for _, form in began)
    first_s = min(since_s for since_s, form in began if form is most)
    return time_text(first_s, most) or None
