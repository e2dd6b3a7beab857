"""How many shards of how many samples: the arithmetic that makes every rank and worker equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unhang.errors import UsageError

WhenUneven = Literal["drop", "repeat"]
SHARD_BYTES = 512 << 20
MAX_SHARDS = 1_000_000


@dataclass(frozen=True)
class EvenSizes:
    """``shards`` shards of ``per_shard`` samples each; ``left_out`` or ``repeated`` samples make it so."""

    ranks: tuple[int, ...]
    workers: int
    samples: int
    shards: int
    per_shard: int

    @property
    def written(self) -> int:
        """Samples in all shards."""
        return self.shards * self.per_shard

    @property
    def left_out(self) -> int:
        """Good samples that stay out."""
        return max(0, self.samples - self.written)

    @property
    def repeated(self) -> int:
        """Samples that are in twice (or more often, where there are few)."""
        return max(0, self.written - self.samples)

    @property
    def even_for(self) -> tuple[int, ...]:
        """Numbers of ranks that get equal shards with ``workers`` workers each."""
        streams = self.shards // max(1, self.workers)
        return tuple(n for n in range(1, min(streams, 4096) + 1) if streams % n == 0)


def even_sizes(
    samples: int, size: int, *, ranks: Sequence[int], workers: int, when_uneven: WhenUneven, per_shard: int
) -> EvenSizes:
    """Settle the sizes for ``samples`` samples of ``size`` bytes together.

    ``ranks`` are all world sizes that must come out even; ``per_shard`` is the most samples a shard should hold.

    Raises:
        UsageError: there are fewer samples than ranks and workers.
    """
    unit = math.lcm(*ranks) * max(1, workers)
    if unit > MAX_SHARDS:
        raise UsageError(f"{unit} shards would be needed to be even for all of these", next_step="fewer --ranks")
    if samples < unit and (when_uneven == "drop" or samples == 0):
        raise UsageError(
            f"{samples} samples cannot be shared by {math.lcm(*ranks)} ranks with {workers} workers each",
            next_step="fewer --workers, or --when-uneven repeat" if samples else "look into left-out.tsv",
        )
    rounds = max(1, math.ceil(samples / (unit * per_shard)), math.ceil(size / (unit * SHARD_BYTES)))
    if when_uneven == "drop":
        rounds = min(rounds, samples // unit)
    shards = unit * rounds
    each = samples // shards if when_uneven == "drop" else math.ceil(samples / shards)
    return EvenSizes(tuple(ranks), workers, samples, shards, each)
