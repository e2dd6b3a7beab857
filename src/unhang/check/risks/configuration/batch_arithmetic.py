"""Batch sizes that do not multiply.

What happens: DeepSpeed wants ``train_batch_size`` = micro batch × accumulation × ranks; torchtitan wants the global
batch to be a multiple of what the ranks take at once; ``split_batches`` wants a batch that the ranks can share.

Why it hangs: an assertion ends the job at its start; where only some nodes have another file, only some ranks end, and
the others wait for them.

Example: ``train_batch_size: 64`` with ``train_micro_batch_size_per_gpu: 4``, accumulation 2 and 6 ranks.

Fix: leave one of the numbers ``auto``, or make them multiply.

Certain when: all numbers are known.

Possible when: one is ``auto`` or not known; then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Finding, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.program.settings.job_values import JobValue, job_value, world_size_of
from unhang.sentences import Text, say

CHECK = "configuration"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Multiply, and compare."""
    yield from _deepspeed(here)
    yield from _torchtitan(here)


def _deepspeed(here: NodeInspection) -> Iterator[Answer]:
    whole = job_value(here, "train_batch_size", kind="deepspeed")
    micro = job_value(here, "train_micro_batch_size_per_gpu", kind="deepspeed")
    steps = job_value(here, "gradient_accumulation_steps", kind="deepspeed")
    world = world_size_of(here)
    numbers = [value.whole if value is not None else None for value in (whole, micro, steps)]
    if whole is None or world is None or None in numbers:
        return
    product = (numbers[1] or 0) * (numbers[2] or 0) * world
    if product == numbers[0]:
        yield PassedCheck(CHECK, say("the batch sizes multiply to {product}", product=product))
        return
    summary = say(
        "train_batch_size is {whole}, but {micro} × {steps} × {world} ranks = {product}: DeepSpeed stops at the start",
        whole=numbers[0],
        micro=numbers[1],
        steps=numbers[2],
        world=world,
        product=product,
    )
    yield _finding(whole, summary, say('train_batch_size: {product}, or "auto"', product=product))


def _torchtitan(here: NodeInspection) -> Iterator[Answer]:
    whole = job_value(here, "training.global_batch_size", kind="torchtitan")
    local = job_value(here, "training.local_batch_size", "training.batch_size", kind="torchtitan")
    world = world_size_of(here)
    shared = 1
    for name in ("tensor_parallel_degree", "context_parallel_degree", "pipeline_parallel_degree"):
        value = job_value(here, f"parallelism.{name}", kind="torchtitan")
        shared *= max(1, (value.whole or 1) if value is not None else 1)
    if whole is None or local is None or not whole.whole or not local.whole or world is None or whole.whole < 0:
        return
    taken = local.whole * max(1, world // shared)
    if whole.whole % taken == 0:
        yield PassedCheck(CHECK, say("the global batch is a multiple of {taken}", taken=taken))
        return
    summary = say(
        "global_batch_size {whole} is no multiple of the {taken} samples that all ranks take at once",
        whole=whole.whole,
        taken=taken,
    )
    yield _finding(whole, summary, say("global_batch_size = {fits}", fits=max(1, round(whole.whole / taken)) * taken))


def _finding(value: JobValue, summary: Text, change: Text) -> Finding:
    return risk(
        CHECK,
        value.name,
        Cause.RANK_CRASHED,
        summary,
        certainty=Certainty.CERTAIN,
        evidence=(value.evidence,),
        remedies=(
            Remedy(
                say("Make the batch sizes multiply"),
                RemedyKind.CONFIG,
                change,
                say("another effective batch size"),
                say("unhang check --only configuration"),
            ),
        ),
    )
