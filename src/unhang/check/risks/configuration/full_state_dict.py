"""Saving the whole model through rank 0.

What happens: a full state dict gathers every parameter to rank 0, which writes it while the others wait.

Why it hangs: with some 10 billion parameters, gathering and writing take longer than the limit of ten minutes.

Example: ``fsdp_state_dict_type: FULL_STATE_DICT``; ``stage3_gather_16bit_weights_on_model_save: true``.

Fix: ``SHARDED_STATE_DICT`` and convert afterwards, or a longer limit around the save.

Certain when: never; it depends on the model and the disk.

Possible when: the limit is 1,800 s or less.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timers
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Finding, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold
from unhang.program.settings.job_values import JobValue, job_value
from unhang.sentences import say

CHECK = "configuration"
LONG_S = threshold("full_state_dict.long_s")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One note for each such setting under a usual limit."""
    timers = here.found(Timers)
    limits = timers.of("collective", "later steps") if timers is not None else ()
    if limits and limits[0].seconds > LONG_S:
        return
    fsdp = job_value(here, "fsdp_config.fsdp_state_dict_type", "fsdp_state_dict_type")
    if fsdp is not None and "FULL" in str(fsdp.value).upper():
        yield _note(fsdp, limits[0].seconds if limits else 600.0)
    zero = job_value(here, "zero_optimization.stage3_gather_16bit_weights_on_model_save", kind="deepspeed")
    if zero is not None and zero.truth:
        yield _note(zero, limits[0].seconds if limits else 600.0)


def _note(value: JobValue, limit_s: float) -> Finding:
    return risk(
        CHECK,
        value.name,
        Cause.SINGLE_RANK_WORK,
        say(
            "rank 0 gathers and writes the whole model while the others wait; the limit is {limit:,.0f} s",
            limit=limit_s,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE,
        evidence=(value.evidence,),
        remedies=(
            Remedy(
                say("Save shards, and join them after training"),
                RemedyKind.CONFIG,
                say("fsdp_state_dict_type: SHARDED_STATE_DICT; DeepSpeed: zero_to_fp32.py"),
                say("one more step after training"),
                say("how long the first save takes"),
            ),
        ),
    )
