"""Parallel degrees whose product is not the number of ranks.

What happens: data × tensor × pipeline × context parallel must be the number of ranks.

Why it hangs: an assertion ends every rank at the start; with another file on one node only some ranks end.

Example: ``tensor_parallel_degree = 4`` and ``pipeline_parallel_degree = 3`` on 8 ranks.

Fix: degrees whose product divides the number of ranks (``-1`` for the sharding degree takes the rest).

Certain when: all numbers are known.

Possible when: the number of ranks is not known; then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.program.settings.job_values import job_value, world_size_of
from unhang.sentences import say

CHECK = "configuration"
TITAN = ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "pipeline_parallel", "context_parallel")
MEGATRON = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Multiply torchtitan's degrees, or Megatron's sizes."""
    world = world_size_of(here)
    if world is None:
        return
    for names in ([f"parallelism.{name}_degree" for name in TITAN], list(MEGATRON)):
        found = [value for name in names if (value := job_value(here, name)) is not None and value.whole is not None]
        degrees = [value.whole or 1 for value in found if (value.whole or 1) > 0]
        takes_rest = names[0] not in MEGATRON and not any(
            value.name.endswith("data_parallel_shard_degree") and (value.whole or -1) > 0 for value in found
        )
        if not found:
            continue
        product = prod(degrees)
        fits = world % product == 0 if takes_rest or names[0] in MEGATRON else world == product
        if fits:
            yield PassedCheck(CHECK, say("the parallel degrees fit {world} ranks", world=world))
            continue
        yield risk(
            CHECK,
            found[0].name,
            Cause.RANK_CRASHED,
            say(
                "the parallel degrees multiply to {product}, and there are {world} ranks", product=product, world=world
            ),
            certainty=Certainty.CERTAIN,
            evidence=tuple(value.evidence for value in found),
            remedies=(
                Remedy(
                    say("Choose degrees whose product divides the number of ranks"),
                    RemedyKind.CONFIG,
                    say("data_parallel_shard_degree = -1 takes what the others leave"),
                    say("another split of the model"),
                    say("unhang check --only configuration"),
                ),
            ),
        )
