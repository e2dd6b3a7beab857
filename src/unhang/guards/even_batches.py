"""``even_batches``: every rank takes the same number of batches, so that none is left alone in a collective.

Prevents the stall at the end of an epoch: one rank has a batch more (a filter, a shard, a broken row, a split without
a seed) and waits in its backward pass for ranks that have left the loop.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, cast

from unhang.errors import UsageError
from unhang.guards.arguments import checked_seconds
from unhang.guards.batches.agreed_epoch import AgreedEpoch
from unhang.guards.batches.batch_windows import MODES, WhenUneven, total_batches
from unhang.guards.batches.counted_epoch import counted_batches
from unhang.guards.batches.even_epoch import GUARD, EvenEpoch
from unhang.guards.call_site import called_from
from unhang.guards.exchange.missing_ranks import gather_from_all
from unhang.guards.exchange.rank_exchange import current_exchange
from unhang.guards.fingerprints.datasets import reported_length

T = TypeVar("T")
_sites: Counter[str] = Counter()


def even_batches(loader: Iterable[T], when_uneven: WhenUneven = "stop", *, timeout_s: float = 1800.0) -> EvenBatches[T]:
    """``loader``, cut so that every rank takes the same number of batches. Every rank wraps and iterates it.

    ``when_uneven`` says what happens when a rank runs out first: ``stop`` ends the loop everywhere at that batch,
    ``error`` raises everywhere, ``pad`` lets it repeat batches from its beginning until the last rank is done. Any
    iterable will do. Lengths that are exact (torch's DataLoader over a map-style data set, lists) are exchanged at the
    start of an epoch; else the ranks agree a few batches ahead, on a Gloo group of their own, and the loader is read
    that far ahead. A rank whose loader raises, or that leaves the loop alone, is named on the others.

    ``timeout_s``: how long a rank waits for the others before it raises. Without torch.distributed, and in a group of
    one, ``loader`` is iterated as it is.

    Raises:
        UsageError: another word for ``when_uneven``.
        RanksDiffer: ``error`` was asked for and the ranks are uneven; or a rank left the loop alone.
        RankFailed: another rank's loader raised.
        RanksMissing: ranks did not come to this loop, or not in time.
    """
    if when_uneven not in MODES:
        raise UsageError(f"even_batches(when_uneven={when_uneven!r}): choose one of {', '.join(MODES)}.")
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise UsageError(f"even_batches takes an iterable, not {type(loader).__name__}.")
    return EvenBatches(loader, when_uneven, checked_seconds("even_batches", "timeout_s", timeout_s))


class EvenBatches(Generic[T]):
    """A loader whose epochs are as long on every rank. Attributes are the loader's own (``set_epoch``, ``sampler``)."""

    def __init__(self, loader: Iterable[T], when_uneven: WhenUneven, timeout_s: float) -> None:
        self.loader = loader
        self.when_uneven = when_uneven
        self._timeout_s = timeout_s
        path, _, line = called_from().rpartition(":")
        site = f"{os.path.basename(path)}:{line}"  # noqa: PTH119 - a name, on machines with other folders too
        _sites[site] += 1
        self._name = f"even_batches at {site}" + (f" ({_sites[site]})" if _sites[site] > 1 else "")
        self._length: int | None = None
        self._agree_on_length()

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not made yet: copying and unpickling ask
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __len__(self) -> int:
        """Batches in an epoch: what the ranks agreed on when this was made or last iterated.

        A number that is only told (a stream's own ``__len__``) may still turn out otherwise.
        """
        if self._length is not None:
            return self._length
        return len(cast("Sized", self.loader))

    def __iter__(self) -> Iterator[T]:
        """One epoch."""
        met = current_exchange()
        if met is None:
            yield from self.loader
            return
        epoch = EvenEpoch(self.loader, self.when_uneven, met, self._name, self._timeout_s)
        try:
            epoch.begin()
            lengths = epoch.exact_lengths()
            if lengths is None:
                yield from AgreedEpoch(epoch).batches()
            else:
                self._length = total_batches(list(lengths.values()), self.when_uneven)
                yield from counted_batches(epoch, lengths)
        finally:
            epoch.close()

    def _agree_on_length(self) -> None:
        met = current_exchange()
        if met is None:
            return
        told = reported_length(self.loader)
        heard = gather_from_all(met, self._name, json.dumps(told).encode(), self._timeout_s, guard=GUARD)
        lengths = [json.loads(said) for said in heard.values()]
        if None not in lengths:
            self._length = total_batches(lengths, self.when_uneven)
