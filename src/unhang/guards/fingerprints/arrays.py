"""NumPy arrays and what turns into one without a copy of our own making: data frames, images, arrow columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from unhang.guards.fingerprints.nodes import Branch, FingerprintBudget, Leaf, Node, digest_of

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

    return Elements(kind, tuple(value.shape), value.dtype.itemsize, content, total, show, look, path)


class Elements:
    """A block of numbers: every element is part of the digest while the budget of bytes lasts, else the head of blocks.

    ``content(low, high)`` gives the bytes of a range of flat elements, ``total`` a checksum, ``show`` one value.
    """

    def __init__(
        self,
        kind: str,
        shape: tuple[int, ...],
        item_bytes: int,
        content: Callable[[int, int], bytes],
        total: Callable[[int, int], bytes],
        show: Callable[[int], str],
        look: FingerprintBudget,
        path: str,
    ) -> None:
        count = 1
        for size in shape:
            count *= size
        self.kind, self.shown, self.size = kind, "", shape[0] if shape else None
        self._shape, self._item, self._content, self._total, self._show = shape, item_bytes, content, total, show
        self._whole = count * item_bytes <= look.bytes_left
        look.bytes_left -= count * item_bytes if self._whole else 0
        if not self._whole:
            look.note(f"samples of {path or 'the tensor'}")
        self._low, self._high = 0, count
        self._hashed = self._hash(0, count)

    def digest(self, limits: Mapping[str, int]) -> str:  # noqa: ARG002
        """Over the kind and the elements."""
        return digest_of([self.kind.encode(), self._hashed])

    def parts(self, limits: Mapping[str, int]) -> list[tuple[str, str]]:  # noqa: ARG002
        """Blocks of elements, then elements."""
        return [(self._label(low, high), self._hash(low, high).hex()) for low, high in self._blocks()]

    def child(self, label: str) -> Node:
        """One block, or one element."""
        low, high = next(ends for ends in self._blocks() if self._label(*ends) == label)
        if high - low == 1:
            return Leaf.of("number", self._content(low, high), self._show(low))
        block = object.__new__(Elements)
        block.__dict__.update(self.__dict__)
        block.kind, block._low, block._high, block._hashed = "elements", low, high, self._hash(low, high)
        return block

    def _blocks(self) -> list[tuple[int, int]]:
        step = max(1, -(-(self._high - self._low) // _BLOCKS))
        return [(low, min(low + step, self._high)) for low in range(self._low, self._high, step)]

    def _hash(self, low: int, high: int) -> bytes:
        count, head = high - low, max(1, _HEAD // self._item)
        if count <= head:
            return bytes.fromhex(digest_of([self._content(low, high)]))
        pieces = []
        step = -(-count // 16)
        for start in range(low, high, step):
            end = min(start + step, high)
            pieces.append(self._content(start, min(start + head, end)))
            if self._whole:
                pieces.append(self._total(start, end))
        return bytes.fromhex(digest_of(pieces))

    def _label(self, low: int, high: int) -> str:
        if high - low > 1:
            return f"~{low}"
        index = []
        for size in reversed(self._shape):
            low, at = divmod(low, size)
            index.append(at)
        return "[" + ", ".join(map(str, reversed(index))) + "]"
