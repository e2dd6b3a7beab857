"""Whether the waiters' own limit will soon end a job that lives."""

from __future__ import annotations

from unhang.facts.model import Facts
from unhang.facts.waiting.pending_timeouts import limit_at_s
from unhang.knowledge.thresholds import threshold
from unhang.wire.documents.bundle import BundleManifest

NEAR_S = threshold("near_timeout.near_s")
NEAR_SHARE = threshold("near_timeout.near_share")
"""The limit is near when no more than so many seconds, or so much of the whole wait, is left."""


def live_manifest(facts: Facts) -> BundleManifest | None:
    """The manifest of the sample of a job that went on; None where there was none."""
    return next((manifest for manifest in facts.manifests if manifest.live and manifest.taken_s is not None), None)


def until_limit_s(looked: BundleManifest, facts: Facts) -> float | None:
    """Seconds from the sample to the first limit that passes; None where no pending call tells one."""
    at_s = limit_at_s(facts, looked.stalled_since_s)
    return at_s - looked.taken_s if at_s is not None and looked.taken_s is not None else None


def is_limit_near(looked: BundleManifest, facts: Facts) -> bool:
    """The end of the job is close enough to speak of it as one."""
    left = until_limit_s(looked, facts)
    if left is None or looked.taken_s is None:
        return False
    waited_s = max(0.0, looked.taken_s - (looked.stalled_since_s or looked.taken_s))
    return left <= max(NEAR_S, NEAR_SHARE * (left + waited_s))
