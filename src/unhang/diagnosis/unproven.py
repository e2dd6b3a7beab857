"""Claims about NCCL that were read from its code and recorded dumps but never seen on a GPU are at most *likely*.

The README's table *run here / from code only* says which; a backend leaves this list when the lab has run on it.
"""

from __future__ import annotations

from dataclasses import replace

from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding

FROM_CODE_ONLY = ("nccl", "nccl2", "ncclx", "rccl", "rcclx", "xccl", "hccl", "mccl")

# What these rest on (an exception, an exit, a process state) does not depend on the communication library.
_PROCESS_FACTS = {Cause.RANK_CRASHED, Cause.GPU_OOM, Cause.HOST_MEMORY, Cause.RANK_FROZEN, Cause.RENDEZVOUS}


def cap_unproven(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, where they rest on such a library's records, at most *likely*."""
    if not _rests_on_unproven(facts):
        return findings
    return tuple(
        f if f.cause in _PROCESS_FACTS else replace(f, certainty=f.certainty.capped(Certainty.LIKELY)) for f in findings
    )


def _rests_on_unproven(facts: Facts) -> bool:
    backends = {r.recording.backend for r in facts.ranks.values() if r.recording is not None}
    if backends & set(FROM_CODE_ONLY):
        return True
    return any(p.told_by == "log" for g in facts.groups.values() for p in g.progress.values())
