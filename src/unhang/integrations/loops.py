"""``for batch in guard(loader, model=model)``: even batches, steps and checks for a plain loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from unhang.errors import UsageError
from unhang.guards.batches.batch_windows import WhenUneven
from unhang.guards.even_batches import even_batches
from unhang.guards.phases import step
from unhang.integrations.same_start import PATIENCE_S, has_other_ranks, same_parameters, same_settings

T = TypeVar("T")


def guard(
    loader: Iterable[T],
    *,
    model: Any = None,
    settings: Mapping[str, Any] | None = None,
    when_uneven: WhenUneven = "stop",
    every: int = 1,
    patience_s: float = PATIENCE_S,
) -> GuardedLoop[T]:
    """``loader``, as long on every rank; a batch that was worked on counts as a step. On every rank, once.

    Args:
        loader: any iterable of batches.
        model: its parameters' names, shapes and types are compared over the ranks now.
        settings: compared too, such as ``vars(args)``.
        when_uneven: as for ``unhang.even_batches``; ``"error"`` names the ranks before the first step.
        every: batches of one step, where gradients are accumulated.
        patience_s: so far apart ranks may come here, in seconds.

    Raises:
        UsageError: ``every`` is below 1.
        RanksDiffer: settings or parameters are not the same.
    """
    if every < 1:
        raise UsageError(f"guard(every={every!r}): a step has at least one batch")
    if has_other_ranks():
        if settings is not None:
            same_settings(settings, "settings", timeout_s=patience_s)
        if model is not None:
            same_parameters(model, timeout_s=patience_s)
    return GuardedLoop(loader, when_uneven, every)


class GuardedLoop(Generic[T]):
    """A loader that counts steps. Attributes are the loader's own."""

    def __init__(self, loader: Iterable[T], when_uneven: WhenUneven, every: int) -> None:
        self._even, self._every = even_batches(loader, when_uneven), every

    def __getattr__(self, name: str) -> Any:
        if name == "_even":  # not made yet: copying and unpickling ask
            raise AttributeError(name)
        return getattr(self._even, name)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._even)

    def __iter__(self) -> Iterator[T]:
        """One epoch."""
        for done, batch in enumerate(self._even, 1):
            yield batch
            if done % self._every == 0:
                step()
