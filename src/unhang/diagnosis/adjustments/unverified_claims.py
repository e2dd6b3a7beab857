"""Claims about NCCL that were read from its code and recorded dumps but never seen on a GPU are at most *likely*.

The README's table *run here / from code only* says which; a backend leaves this list when the lab has run on it.
"""

from __future__ import annotations

from dataclasses import replace

from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding

FROM_CODE_ONLY = ("nccl", "nccl2", "ncclx", "rccl", "rcclx", "xccl", "hccl", "mccl")
# Kinds of log lines of NCCL itself and of torch's NCCL process group (knowledge/messages).
_NCCL_LINES = ("n.", "wd.", "hb.", "dump.", "tc.", "ncclerr", "uid.")

# What these rest on (an exception, an exit, a process state) does not depend on the communication library.
_PROCESS_FACTS = {Cause.RANK_CRASHED, Cause.GPU_OOM, Cause.HOST_MEMORY, Cause.RANK_FROZEN, Cause.RENDEZVOUS}


def cap_unverified_claims(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, where they rest on such a library's records or lines, at most *likely*."""
    everything = _rests_on_records(facts)
    lines = {(e.source.path, e.source.line) for e in facts.events if e.kind.startswith(_NCCL_LINES)}
    return tuple(
        replace(f, certainty=f.certainty.capped(Certainty.LIKELY))
        if f.cause not in _PROCESS_FACTS
        and (everything or any((e.source.path, e.source.line) in lines for e in f.evidence))
        else f
        for f in findings
    )


def _rests_on_records(facts: Facts) -> bool:
    backends = {r.recording.backend for r in facts.ranks.values() if r.recording is not None}
    # without any dump too: what waiting in its collectives looks like from outside was not seen either
    backends |= {manifest.backend for manifest in facts.manifests}
    if backends & set(FROM_CODE_ONLY):
        return True
    return any(p.source_kind == "log" for g in facts.groups.values() for p in g.progress.values())
