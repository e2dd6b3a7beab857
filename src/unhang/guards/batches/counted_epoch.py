"""Epochs whose number of batches every rank knows: the numbers are exchanged once, then each rank counts for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unhang.errors import RanksDiffer
from unhang.guards.batches.batch_source import LoaderFailure, is_end_or_failure
from unhang.guards.batches.batch_windows import total_batches
from unhang.guards.batches.even_epoch import EvenEpoch, minority_ranks
from unhang.guards.batches.loader_lengths import is_stateful_loader


def counted_batches(epoch: EvenEpoch, lengths: Mapping[int, int]) -> Iterator[Any]:
    """The batches of this rank, as many on every rank.

    The loader is looked at one batch ahead, so that the others hear of one that fails while they are in the batch
    before.
    """
    count = total_batches(list(lengths.values()), epoch.mode)
    if epoch.mode == "error" and len(set(lengths.values())) > 1:
        raise epoch.lengths_error(dict(lengths), minority_ranks(dict(lengths)))
    own, ahead = lengths[epoch.met.rank], not is_stateful_loader(epoch.loader)
    last_seen = min(own, count) if ahead else 0
    for place in range(count):
        batch = epoch.source.take() if place < own else epoch.source.pad()
        if is_end_or_failure(batch):
            raise _stopped(epoch, batch)
        if place + 1 < last_seen and is_end_or_failure(following := epoch.source.peek()):
            epoch.announce_stop(place + 1, following)
        yield epoch.take(batch)
    epoch.end()
    epoch.report({rank: (count, length) for rank, length in lengths.items()}, exact=True)


def _stopped(epoch: EvenEpoch, batch: Any) -> Exception:
    if not epoch.alarm.told:
        epoch.announce_stop(epoch.taken, batch)
    if isinstance(batch, LoaderFailure):
        return batch.error
    return RanksDiffer(
        f"{epoch.name}: this rank's loader ended after {epoch.taken} batches, fewer than its length says",
        ranks=(epoch.met.rank,),
    )
