"""Groups of generations that do not fit the batch.

What happens: GRPO compares ``num_generations`` answers to one prompt; all of them must be in one batch over all ranks.

Why it hangs: TRL stops at the start; older versions count only training processes, so that a card taken for generation
changes the arithmetic.

Example: ``num_generations: 8`` with ``per_device_train_batch_size: 1`` on 6 ranks.

Fix: a number of generations that divides per-device batch × ranks × steps per generation.

Certain when: all numbers are known.

Possible when: the number of ranks is not known; then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Finding, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.program.settings.batch_requirements import batch_requirements
from unhang.program.settings.job_values import JobValue, job_value, world_size_of
from unhang.sentences import Text, say

CHECK = "configuration"
DEFAULT_BATCH = 8


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the arithmetic of TRL's GRPO (1.16: grpo_config.py; up to 0.17 with world × batch only).

    A trainer whose own rule could be read and worked out is judged by that: see :mod:`program_batch_requirement`.
    """
    if any(name == "num_generations" for rule in batch_requirements(here) for name, _ in rule.values):
        return
    generations = job_value(here, "num_generations")
    if generations is None or generations.whole is None:
        return
    if generations.whole < 2:
        yield _finding(
            generations, say("num_generations is {count}: a group needs at least 2", count=generations.whole), "2"
        )
        return
    both = job_value(here, "generation_batch_size"), job_value(here, "steps_per_generation")
    if both[0] is not None and both[1] is not None:
        summary = say("generation_batch_size and steps_per_generation exclude each other: TRL stops at the start")
        yield _finding(both[0], summary, "")
    world = world_size_of(here)
    if world is None:
        return
    batch = job_value(here, "per_device_train_batch_size")
    per_device = DEFAULT_BATCH if batch is None else (batch.whole or DEFAULT_BATCH)
    steps = job_value(here, "steps_per_generation", "gradient_accumulation_steps")
    at_once = per_device * world
    whole = both[0].whole if both[0] is not None and both[0].whole else at_once * ((steps.whole or 1) if steps else 1)
    if whole % at_once:
        summary = say(
            "generation_batch_size {whole} is no multiple of {batch} × {world} ranks",
            whole=whole,
            batch=per_device,
            world=world,
        )
        yield _finding(both[0] or generations, summary, str(at_once * max(1, round(whole / at_once))))
    elif whole % generations.whole:
        summary = say(
            "{count} generations do not divide the batch of {whole} ({batch} × {world} ranks × {steps} steps)",
            count=generations.whole,
            whole=whole,
            batch=per_device,
            world=world,
            steps=whole // at_once,
        )
        yield _finding(generations, summary, ", ".join(_divisors(whole)))
    else:
        yield PassedCheck(
            CHECK, say("{count} generations divide the batch of {whole}", count=generations.whole, whole=whole)
        )


def _divisors(whole: int) -> list[str]:
    return [str(number) for number in range(2, min(whole, 64) + 1) if whole % number == 0][:6]


def _finding(value: JobValue, summary: Text, fits: str) -> Finding:
    change = say("{name}: one of {fits}", name=value.name, fits=fits) if fits else say("keep one of the two")
    return risk(
        CHECK,
        value.name,
        Cause.RANK_CRASHED,
        summary,
        certainty=Certainty.LIKELY,
        evidence=(value.evidence,),
        remedies=(
            Remedy(
                say("Choose numbers that divide"),
                RemedyKind.CONFIG,
                change,
                say("more or fewer answers per prompt"),
                say("unhang check --only configuration"),
            ),
        ),
    )
