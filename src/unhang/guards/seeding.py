"""``seed_everything``: one seed for every source of random numbers a training job draws from.

Prevents the stall of ranks that split or shuffle their data differently: another split has another number of batches,
and the rank with fewer leaves the loop while the others wait in a collective.
"""

from __future__ import annotations

import operator
import os
import random
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from unhang.errors import UsageError

_LARGEST = 2**32
"""NumPy takes seeds below this."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """What :func:`seed_everything` was last called with in this process."""

    seed: int
    rank_offset: bool

    def __str__(self) -> str:
        return f"{self.seed}+rank" if self.rank_offset else str(self.seed)


_last: Seeded | None = None


def seed_everything(seed: int, *, rank_offset: bool = False) -> None:
    """Seed Python, NumPy, torch on every device, and the workers of data loaders made afterwards.

    ``rank_offset=True`` adds this rank's number, for dropout and augmentations that shall differ between ranks: split
    and shuffle the data before, or with a seed of its own. Without torch.distributed the rank is that of the
    environment, or 0.

    Raises:
        UsageError: ``seed`` is no whole number from 0 to 2**32 - 1.
    """
    global _last  # noqa: PLW0603 - the random states it describes are the process's own
    seed = _whole(seed)
    own = (seed + _rank()) % _LARGEST if rank_offset else seed
    random.seed(own)
    _seed_numpy(own)
    _seed_torch(own)
    _last = Seeded(seed, rank_offset)


def seed_worker(worker_id: int) -> None:  # noqa: ARG001 - the signature torch calls
    """For ``DataLoader(worker_init_fn=unhang.seed_worker)``: Python and NumPy of a worker follow torch's seed.

    torch does so itself when a worker starts; this is for programs in which other code seeds NumPy alike again.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    own = torch.initial_seed() % _LARGEST
    random.seed(own)
    _seed_numpy(own)


def last_seeded() -> Seeded | None:
    """What this process was seeded with; None when :func:`seed_everything` was never called."""
    return _last


def random_states() -> dict[str, Any]:
    """The random states of this process, to be handed to ``same_on_all_ranks``. Nothing is drawn."""
    states: dict[str, Any] = {"seed_everything": str(_last), "python": random.getstate()}
    if (np := sys.modules.get("numpy")) is not None:
        states["numpy"] = np.random.get_state()
    if (torch := sys.modules.get("torch")) is None:
        return states
    states["torch"] = torch.get_rng_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _whole(given: Any) -> int:
    """``given`` as Python's own number: NumPy's whole numbers are seeds too."""
    if not isinstance(given, bool) and hasattr(given, "__index__"):
        with suppress(TypeError):
            if 0 <= operator.index(given) < _LARGEST:
                return operator.index(given)
    raise UsageError(f"seed_everything takes an integer from 0 to {_LARGEST - 1}, not {given!r}.")


def _seed_numpy(seed: int) -> None:
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(seed)  # libraries draw from the global state


def _seed_torch(seed: int) -> None:
    try:
        import torch
    except ImportError:
        return
    # Every accelerator too: CUDA, MPS, XPU and others, at once or when they are first used.
    torch.manual_seed(seed)


def _rank() -> int:
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return int(dist.get_rank())
    told = os.environ.get("RANK", "")
    return int(told) if told.isdigit() else 0
