"""Values as they are now: what the program changes later does not show in them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

DEEPEST = 6
_PLAIN = frozenset((int, float, bool, complex, type(None)))
OTHER_BYTES = 200


class DeviceCopy:
    """A copy of a tensor of a card, made there: nobody waits for the card now, whoever reads it does."""

    def __init__(self, tensor: Any, made: Any) -> None:
        self.tensor, self._made = tensor, made

    def here(self) -> Any:
        """The tensor on the host, once the card has made the copy."""
        self._made.synchronize()
        return self.tensor.cpu()


def copy_value(value: Any, depth: int = 0) -> tuple[Any, int]:
    """(a copy of ``value``, about how many bytes it holds). What is neither tensor, array, container nor plain value
    (figures, media objects) stays the same object; a number in a tensor of the host becomes a plain one."""
    kind = type(value)
    if kind in _PLAIN:
        return value, 0
    if kind is str or kind is bytes:
        return value, len(value)
    known = _COPIERS.get(kind)
    if known is not None and depth < DEEPEST:
        return known(value, depth)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(value, torch)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value.copy(), OTHER_BYTES + value.nbytes
    return value, OTHER_BYTES


def to_host(value: Any) -> Any:
    """``value`` with the tensors of cards on the host."""
    kind = type(value)
    if kind is DeviceCopy:
        return value.here()
    if kind is dict:
        return {key: to_host(one) for key, one in value.items()}
    return kind(to_host(one) for one in value) if kind in (list, tuple) else value


def _of_tensor(tensor: Any, torch: Any) -> tuple[Any, int]:
    on_card = tensor.is_cuda
    if not on_card and not tensor.dim():
        return tensor.item(), 0
    held = OTHER_BYTES + tensor.nbytes
    copy = tensor.detach().clone()
    if not on_card:
        return copy, held
    made = torch.cuda.Event()
    made.record(torch.cuda.current_stream(tensor.device))
    return DeviceCopy(copy, made), held


def _of_dict(value: dict[Any, Any], depth: int) -> tuple[Any, int]:
    copy, held = {}, OTHER_BYTES
    for key, one in value.items():
        copy[key], more = copy_value(one, depth + 1)
        held += more
    return copy, held


def _of_sequence(value: Any, depth: int) -> tuple[Any, int]:
    copy, held = [], OTHER_BYTES
    for one in value:
        part, more = copy_value(one, depth + 1)
        copy.append(part)
        held += more
    return copy if type(value) is list else tuple(copy), held


_COPIERS: dict[type, Callable[[Any, int], tuple[Any, int]]] = {dict: _of_dict, list: _of_sequence, tuple: _of_sequence}
