"""One rank's batches: read one at a time, looked at ahead, repeated from the beginning as padding."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from unhang.guards.exchange.printing import exception_text

END: Final = object()
"""There is no further batch."""


@dataclass(frozen=True, slots=True)
class LoaderFailure:
    """The loader raised instead of giving a batch."""

    error: Exception

    def __repr__(self) -> str:
        return exception_text(self.error, 300)


def is_end_or_failure(batch: Any) -> bool:
    """Whether ``batch`` is ``END`` or a ``LoaderFailure``."""
    return batch is END or isinstance(batch, LoaderFailure)


class BatchSource:
    """The batches of one epoch. ``taken``: how many of the loader's own were given out."""

    def __init__(self, loader: Iterable[Any], *, keep_first: bool) -> None:
        self._loader = loader
        self._batches: Iterator[Any] | None = None
        self._ahead: list[Any] = []
        self._again: Iterator[Any] | None = None
        self._first: Any = END
        self._keep_first = keep_first
        self.taken = 0
        self.ended = False
        self.failed: LoaderFailure | None = None

    def peek(self) -> Any:
        """The next batch, without taking it; ``END``, or ``LoaderFailure``."""
        if not self._ahead:
            self._ahead.append(self._read())
        return self._ahead[0]

    def take(self) -> Any:
        """The next batch; ``END``, or ``LoaderFailure``."""
        batch = self._ahead.pop() if self._ahead else self._read()
        if is_end_or_failure(batch):
            self.ended = True
            self.failed = batch if isinstance(batch, LoaderFailure) else None
            self._ahead.append(batch)
        else:
            self.taken += 1
        return batch

    def pad(self) -> Any:
        """A batch from the beginning once more; ``LoaderFailure`` where the loader cannot give one."""
        if self._first is not END:
            return _copy(self._first)
        batch = self._from_the_beginning() if self._again is None else _next(self._again)
        if batch is END:
            batch = self._from_the_beginning()
        if batch is END:
            return LoaderFailure(RuntimeError("the loader gave no batch when it was iterated again"))
        return batch

    def _from_the_beginning(self) -> Any:
        try:
            self._again = iter(self._loader)
        except Exception as error:  # noqa: BLE001 - the user's loader; the other ranks have to hear of it
            return LoaderFailure(error)
        return _next(self._again)

    def _read(self) -> Any:
        if self._batches is None:
            try:
                self._batches = iter(self._loader)
            except Exception as error:  # noqa: BLE001 - the user's loader; raised where the loop gets to it
                return LoaderFailure(error)
            # What is its own iterator cannot begin again: its first batch is kept, as the loop may change it.
            self._keep_first = self._keep_first and self._batches is self._loader
        batch = _next(self._batches)
        if self._keep_first and not is_end_or_failure(batch):
            self._first, self._keep_first = _copy(batch), False
        return batch


def _copy(batch: Any) -> Any:
    """A copy, or the batch itself where it has none (open files, tensors that belong to a graph)."""
    try:
        return copy.deepcopy(batch)
    except Exception:  # noqa: BLE001 - the program's own objects; it is padding, and this rank must not fall for it
        return batch


def _next(batches: Iterator[Any]) -> Any:
    try:
        return next(batches)
    except StopIteration:
        return END
    except Exception as error:  # noqa: BLE001 - the user's loader; raised where the loop gets to it
        return LoaderFailure(error)
