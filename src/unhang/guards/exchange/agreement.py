"""Agreements on a Gloo group of our own: every rank says a few numbers ahead of time, and reads all ranks' later.

The exchange runs in Gloo's threads while the training computes. Only ``even_batches`` over loaders of unknown length
needs it; the group is made at the first of them, and every rank makes it at the same moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from unhang.errors import GuardError
from unhang.guards.exchange.store_connection import GROUP_PREFIX

if TYPE_CHECKING:
    import torch  # without it there are no ranks, and a loop is as it is

_SLICE_S = 0.5


@dataclass(frozen=True, slots=True)
class AgreedWindow:
    """What all ranks said. ``failed``: a rank whose loader raised, or None; ``apart``: they speak of other rounds."""

    fewest: int
    most: int
    window: int
    failed: int | None
    apart: bool


class PendingAgreement:
    """One agreement under way."""

    def __init__(self, group: Any, numbers: torch.Tensor) -> None:
        import torch.distributed as dist

        self._numbers = numbers
        self._work = dist.all_reduce(numbers, op=dist.ReduceOp.MAX, group=group, async_op=True)

    def result(self, while_waiting: Callable[[float], None]) -> AgreedWindow:
        """What was agreed; ``while_waiting(waited_s)`` is called twice a second and may raise.

        Raises:
            GuardError: the connection to a rank was lost.
        """
        work, since = self._work, time.monotonic()
        while not work.is_completed():
            try:
                work.wait(timedelta(seconds=_SLICE_S))
            except RuntimeError as error:
                if work.is_completed():
                    raise GuardError(f"even_batches: a rank is gone ({str(error).splitlines()[0][:200]})") from error
            while_waiting(time.monotonic() - since)
        try:
            work.wait()
        except RuntimeError as error:
            raise GuardError(f"even_batches: a rank is gone ({str(error).splitlines()[0][:200]})") from error
        return _agreed(self._numbers.tolist())


def _agreed(numbers: list[int]) -> AgreedWindow:
    most, less, window, failed, key, other_key, turn, other_turn = numbers
    return AgreedWindow(-less, most, window, failed - 1 if failed else None, key != -other_key or turn != -other_turn)


class AgreementGroup:
    """The group of this process, made once and again after ranks went apart on it."""

    def __init__(self) -> None:
        self._group: Any = None
        self._of: object = None

    def ready(self) -> bool:
        """Whether this rank has a group that can be used."""
        import torch.distributed as dist

        return self._group is not None and self._of is dist.group.WORLD

    def make(self, timeout_s: float) -> str:
        """Make the group, on every rank at once; why it could not be made, or an empty string."""
        import torch.distributed as dist

        try:
            self._group = dist.new_group(
                backend="gloo", timeout=timedelta(seconds=timeout_s), group_desc=f"{GROUP_PREFIX}even_batches"
            )
        except (RuntimeError, ValueError) as error:
            self._group = None
            return str(error).splitlines()[0][:300]
        self._of = dist.group.WORLD
        return ""

    def drop(self) -> None:
        """Use this group no more: ranks may have spoken of different rounds on it."""
        self._group = None

    def say(self, *, have: int, window: int, failed: bool, rank: int, key: int, turn: int) -> PendingAgreement:
        """Begin an agreement: ``have`` batches found, ``window`` wished for the next; ``key`` and ``turn`` name it."""
        import torch

        numbers = [have, -have, window, rank + 1 if failed else 0, key, -key, turn, -turn]
        return PendingAgreement(self._group, torch.tensor(numbers, dtype=torch.int64))


agreements = AgreementGroup()
