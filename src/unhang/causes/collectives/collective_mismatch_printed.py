"""collective-mismatch: in logs alone: torch's debug wrapper, its dump analyser or NCCL say that calls do not fit.

What happens: TORCH_DISTRIBUTED_DEBUG=DETAIL prints two fingerprints that differ in operation, shape or dtype.
Why it hangs: without the wrapper these ranks would wait for each other in calls that do not belong together.
Example: rank 0 gathers `[41, 256]` where rank 1 gathers `[40, 256]`, both at sequence number 0.
Fix: make the shapes equal (pad, drop the last batch), keep one order of calls on all ranks.
Certain when: the fingerprints of all ranks were printed and one rank alone differs.
Possible when: never; NCCL's truncated message alone is left to `unknown`: versions and strangers cause it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import place_of
from unhang.facts.alignment.collective_fingerprints import FingerprintMismatch, fingerprint_mismatch
from unhang.facts.logs.log_statements import first_attempt, quote_events
from unhang.facts.logs.logged_parameter_counts import outlier_models, parameter_counts
from unhang.facts.model import Facts
from unhang.findings import Cause, Evidence, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.COLLECTIVE_MISMATCH


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Printed fingerprints, then what torch's own checks, DDP and Gloo say."""
    printed = fingerprint_mismatch(facts)
    if printed is not None and printed.differs_in and not any(call.nothing_posted for call in printed.calls.values()):
        yield _found(facts, printed)
    named = first_attempt(facts.events_of("fr.culprit", "fsdp.order"))
    if named:
        ranks = tuple(sorted({r for e in named if isinstance(r := e.values.get("rank"), int)}))
        summary = say("{ranks:who} issued other collectives than the others, says torch's own check", ranks=ranks)
        yield _plain(summary, quote_events(named), ranks)
    counts = parameter_counts(facts)
    sizes = first_attempt(facts.events_of("ddp.shape", "gloo.enforce"))
    if odd := outlier_models(counts):
        yield _other_model(facts, counts, odd)
    elif sizes and not facts.mismatches:
        yield _plain(say("ranks brought tensors of different sizes to one call"), quote_events(sizes))


def _other_model(facts: Facts, counts: dict[int, int], odd: tuple[int, ...]) -> DetectorResult:
    """DDP counts the parameters of all ranks before the first step."""
    events = first_attempt(facts.events_of("ddp.shape"))
    tied = len(odd) == len(counts)
    return make_signal(
        CAUSE,
        Grade.STATED,
        say("ranks have built models with different numbers of parameters")
        if tied
        else say("{ranks:who} built another model than the others: DDP counts other parameters", ranks=odd),
        whole=False,
        ranks=odd,
        phase=Phase.INIT,
        where=place_of(facts, odd[0]),
        because=tuple(
            say("rank {rank}'s model has {count} parameters", rank=rank, count=count)
            for rank, count in sorted(counts.items())[:4]
        ),
        evidence=quote_events(events),
        remedies=(remedy("build-same-model"),),
    )


def _found(facts: Facts, printed: FingerprintMismatch) -> DetectorResult:
    ranks = printed.outliers or tuple(sorted(printed.calls))
    kinds = " and ".join(printed.differs_in)
    return make_signal(
        CAUSE,
        Grade.RECORD,
        say(
            "{ranks:who} called another {kinds} than the others at position {position}",
            ranks=ranks,
            kinds=kinds,
            position=printed.position,
        )
        if printed.outliers
        else say(
            "{ranks:who} disagree in {kinds} at position {position}",
            ranks=ranks,
            kinds=kinds,
            position=printed.position,
        ),
        whole=len(printed.outliers) == 1 and len(printed.calls) == facts.world_size,
        ranks=ranks,
        phase=printed.phase,
        where=printed.where,
        calls=printed.as_calls(),
        because=tuple(_because(printed)),
        evidence=printed.evidence,
        remedies=(remedy("issue-same-call"),),
    )


def _because(printed: FingerprintMismatch) -> Iterator[Text]:
    for rank, call in sorted(printed.calls.items()):
        yield say(
            "rank {rank}: {operation} of shape {shape}, {dtype}",
            rank=rank,
            operation=call.operation,
            shape="x".join(str(size) for size in call.shape) or "none",
            dtype=call.dtype or "no tensor",
        )
    if not printed.outliers and len(printed.calls) == 2:
        yield say("of two ranks it cannot be told which one is wrong")


def _plain(summary: Text, evidence: tuple[Evidence, ...], ranks: tuple[int, ...] = ()) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.STATED,
        summary,
        whole=False,
        ranks=ranks,
        evidence=evidence,
        because=(say("TORCH_DISTRIBUTED_DEBUG=DETAIL names the ranks, the operation and the shapes"),),
        remedies=(remedy("issue-same-call"),),
    )
