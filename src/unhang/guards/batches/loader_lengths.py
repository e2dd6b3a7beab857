"""How many batches a loader will give, where its length can be relied on."""

from __future__ import annotations

import sys
from typing import Any

_COUNTED = ("torch.utils.data", "accelerate.data_loader")


def exact_length(loader: Any) -> int | None:
    """The number of batches, where it is exact by construction; None where only iterating tells.

    Exact: lists, tuples, ranges; torch's own DataLoader, or what Accelerate makes of it, over a map-style data set with
    samplers of theirs. A length that someone wrote by hand (a stream's, a sampler's of one's own) is a promise.
    """
    if isinstance(loader, list | tuple | range):
        return len(loader)
    torch = sys.modules.get("torch")
    data = torch.utils.data if torch is not None else None
    if data is None or not isinstance(loader, data.DataLoader) or isinstance(loader.dataset, data.IterableDataset):
        return None
    if type(loader).__module__ not in ("torch.utils.data.dataloader", "accelerate.data_loader"):
        return None
    cut = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    samplers = (cut, getattr(cut, "sampler", None))
    if not all(sampler is None or type(sampler).__module__.startswith(_COUNTED) for sampler in samplers):
        return None
    return len(loader)


def is_stateful_loader(loader: Any) -> bool:
    """Whether the loader keeps a state that says which batch the training is at.

    A stateful loader would be saved one batch too far; Accelerate's says by it which batch is the last.
    """
    return hasattr(loader, "state_dict") or hasattr(loader, "gradient_state")
