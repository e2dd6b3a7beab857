"""NumPy arrays and what turns into one without a copy of our own making: data frames, images, arrow columns."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from unhang.guards.fingerprints.nodes import Branch, FingerprintBudget, Leaf, Node, Span, digest_of

_BLOCKS = 256
_HEAD = 128 << 10

Read = Callable[..., Node]


def array_node(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node | None:
    """A tree for NumPy arrays, scalars and generators, pandas and images; None for anything else."""
    np = sys.modules.get("numpy")
    if np is None:
        return None
    if isinstance(value, np.ndarray):
        return _array(value, look, path, read)
    if isinstance(value, np.generic):
        return Leaf.of(f"numpy {value.dtype}", value.tobytes(), repr(value.item()))
    if isinstance(value, np.random.Generator | np.random.BitGenerator):
        generator = getattr(value, "bit_generator", value)
        return Leaf.of("random state", repr(generator.state).encode(), type(generator).__name__)
    if isinstance(value, np.random.RandomState):
        return Leaf.of("random state", repr(value.get_state()).encode(), "RandomState")
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        columns = {f"[{name!r}]": read(value[name].to_numpy(), path=f"{path}[{name!r}]") for name in value.columns}
        return Branch("DataFrame", columns, size=len(value))
    if pandas is not None and isinstance(value, pandas.Series | pandas.Index):
        return read(value.to_numpy(), path=path)
    if type(value).__module__.startswith("PIL.") and hasattr(value, "tobytes"):
        return Leaf.of(f"image {value.mode} {value.size}", value.tobytes())
    return None


def _array(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node:
    if value.dtype.hasobject:
        return read(value.tolist(), path=path)
    kind = f"array {value.dtype} {tuple(value.shape)}"

    def show(index: int) -> str:
        return repr(value.flat[index].item())

    def content(low: int, high: int) -> bytes:
        return bytes(value.flat[low:high].tobytes())

    def total(low: int, high: int) -> bytes:
        return digest_of([content(low, high)]).encode()

    return elements_node(kind, tuple(value.shape), value.dtype.itemsize, content, total, show, look, path)


def elements_node(
    kind: str,
    shape: tuple[int, ...],
    item_bytes: int,
    content: Callable[[int, int], bytes],
    total: Callable[[int, int], bytes],
    show: Callable[[int], str],
    look: FingerprintBudget,
    path: str,
) -> Node:
    """A block of numbers: every element is part of the digest while the budget of bytes lasts, else the head of blocks.

    ``content(low, high)`` gives the bytes of a range of flat elements, ``total`` a checksum, ``show`` one value.
    """
    count, size = math.prod(shape), shape[0] if shape else None
    whole = count * item_bytes <= look.bytes_left
    look.bytes_left -= count * item_bytes if whole else 0
    if not whole:
        look.note(f"samples of {path or 'the tensor'}")

    def hashed(low: int, high: int) -> str:
        head = max(1, _HEAD // item_bytes)
        if high - low <= head:
            return digest_of([content(low, high)])
        pieces = []
        step = -(-(high - low) // 16)
        for start in range(low, high, step):
            end = min(start + step, high)
            pieces.append(content(start, min(start + head, end)))
            if whole:
                pieces.append(total(start, end))
        return digest_of(pieces)

    def block(low: int, high: int, kind: str = "elements") -> Node:
        if high - low == 1 and kind == "elements":
            return Leaf.of("number", content(low, high), show(low))
        step = max(1, -(-(high - low) // _BLOCKS))

        def cut() -> dict[str, Callable[[], Node]]:
            ends = [(at, min(at + step, high)) for at in range(low, high, step)]
            return {_label(shape, *pair): partial(block, *pair) for pair in ends}

        return Span(kind, hashed(low, high), cut, size=size)

    return block(0, count, kind)


def _label(shape: tuple[int, ...], low: int, high: int) -> str:
    if high - low > 1:
        return f"~{low}"
    index = []
    for size in reversed(shape):
        low, at = divmod(low, size)
        index.append(at)
    return "[" + ", ".join(map(str, reversed(index))) + "]"
