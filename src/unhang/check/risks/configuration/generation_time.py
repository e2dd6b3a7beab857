"""One rank's generation may outlast the limit.

What happens: without an inference engine every rank generates token by token, and the longest answer of all ranks
decides; under ZeRO stage 3 every token gathers the parameters.

Why it hangs: ranks that are done wait in a collective; the longest answer takes longer than the limit.

Example: ``max_completion_length: 16384`` with ZeRO stage 3, no vLLM, and the limit of 1,800 s.

Fix: vLLM (``use_vllm: true``), shorter answers, ZeRO stage 2, or a limit that the longest answer fits in.

Certain when: never; the speed is not known before it runs.

Possible when: at 10 tokens a second (3 under stage 3) the longest answer takes longer than the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timers
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold
from unhang.program.settings.job_values import job_value, value_in_force
from unhang.sentences import say

CHECK = "configuration"
SLOW_TOKENS_PER_S = threshold("generation_time.slow_tokens_per_s")
SLOW_UNDER_STAGE_3 = threshold("generation_time.slow_under_stage_3")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Compare a slow generation with the limit."""
    length = job_value(here, "max_completion_length", "max_new_tokens") or value_in_force(here, "max_completion_length")
    engine, timers = value_in_force(here, "use_vllm"), here.found(Timers)
    limits = timers.of("collective", "later steps") if timers is not None else ()
    generates = job_value(here, "num_generations", "predict_with_generate")
    if length is None or length.whole is None or generates is None or not limits:
        return
    if engine is not None and engine.truth:
        yield PassedCheck(CHECK, say("vLLM generates"))
        return
    stage = job_value(here, "zero_optimization.stage", kind="deepspeed")
    stage_3 = stage is not None and stage.whole == 3
    speed = SLOW_UNDER_STAGE_3 if stage_3 else SLOW_TOKENS_PER_S
    seconds, limit = length.whole / speed, limits[0]
    if seconds <= limit.seconds:
        yield PassedCheck(
            CHECK,
            say(
                "an answer of {tokens:,} tokens takes {seconds:,.0f} s at {speed:g} a second, and fits in "
                "{limit:,.0f} s ({name})",
                tokens=length.whole,
                seconds=seconds,
                speed=speed,
                limit=limit.seconds,
                name=limit.name,
            ),
        )
        return
    yield risk(
        CHECK,
        length.name,
        Cause.TIMEOUT_TOO_SHORT,
        say(
            "an answer of {tokens:,} tokens takes {seconds:,.0f} s at {speed:g} a second; the limit is {limit:,.0f} s",
            tokens=length.whole,
            seconds=seconds,
            speed=speed,
            limit=limit.seconds,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.SLOWS,
        because=(say("under ZeRO stage 3 every token gathers the parameters"),) if stage_3 else (),
        evidence=tuple(
            e for e in (length.evidence, limit.evidence, stage.evidence if stage else None) if e is not None
        ),
        remedies=(
            Remedy(
                say("Generate with vLLM"),
                RemedyKind.CONFIG,
                say("use_vllm: true"),
                say("memory for a second copy of the model, or cards of its own"),
                say("the step time of generation in the first steps"),
            ),
            Remedy(
                say("Shorten the longest answer, or raise {name}", name=limit.name),
                RemedyKind.CONFIG,
                say("max_completion_length: {tokens}", tokens=int(limit.seconds * speed / 2)),
                say("answers are cut; or a stall is noticed later"),
                say("unhang check --only configuration"),
            ),
        ),
    )
