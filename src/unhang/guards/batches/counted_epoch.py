"""Epochs whose number of batches every rank knows: the numbers are exchanged once, then each rank counts for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unhang.errors import RanksDiffer
from unhang.guards.batches.batch_source import Failed, is_trouble
from unhang.guards.batches.batch_windows import total
from unhang.guards.batches.even_epoch import Epoch, odd_ones, told_lengths
from unhang.guards.batches.loader_lengths import must_not_run_ahead


def counted(epoch: Epoch, lengths: Mapping[int, int]) -> Iterator[Any]:
    """The batches of this rank, as many on every rank.

    The loader is looked at one batch ahead, so that the others hear of one that fails while they are in the batch
    before.
    """
    count = total(list(lengths.values()), epoch.mode)
    if epoch.mode == "error" and len(set(lengths.values())) > 1:
        epoch.over = True
        raise RanksDiffer(f"{epoch.name}: {told_lengths(dict(lengths))}", ranks=odd_ones(dict(lengths)))
    own, ahead = lengths[epoch.met.rank], not must_not_run_ahead(epoch.loader)
    last_seen = min(own, count) if ahead else 0
    for place in range(count):
        batch = epoch.source.take() if place < own else epoch.source.pad()
        if is_trouble(batch):
            raise _stopped(epoch, batch)
        if place + 1 < last_seen and is_trouble(following := epoch.source.peek()):
            epoch.ring(place + 1, following)
        yield epoch.take(batch)
    epoch.end()
    epoch.report({rank: (count, length) for rank, length in lengths.items()}, exact=True)


def _stopped(epoch: Epoch, batch: Any) -> Exception:
    if not epoch.alarm.told:
        epoch.ring(epoch.taken, batch)
    if isinstance(batch, Failed):
        return batch.error
    return RanksDiffer(
        f"{epoch.name}: this rank's loader ended after {epoch.taken} batches, fewer than its length",
        ranks=(epoch.met.rank,),
    )
