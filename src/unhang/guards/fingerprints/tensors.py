"""Tensors, modules, optimizers and torch's random states. No collective: of a shard only the layout is compared."""

from __future__ import annotations

import random
import sys
from typing import Any

from unhang.guards.fingerprints.arrays import Read, elements_node
from unhang.guards.fingerprints.nodes import Branch, FingerprintBudget, Leaf, Node, label_of

_CHUNK = 1 << 24


def tensor_node(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node | None:
    """A tree for what torch defines, and for Python's own random generators; None for anything else."""
    if isinstance(value, random.Random):
        return Leaf.of("random state", repr(value.getstate()).encode(), "random.Random")
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.Tensor):
        return _tensor(torch, value, look, path)
    if isinstance(value, torch.nn.Module):
        return _module(value, path, read)
    if isinstance(value, torch.optim.Optimizer):
        return read(value.state_dict(), path=path)
    if isinstance(value, torch.Generator):
        return Leaf.of("random state", value.get_state().numpy().tobytes(), f"seed {value.initial_seed()}")
    if isinstance(value, torch.device):
        return Leaf.of("device", value.type.encode(), value.type)  # its number is the rank's own
    if isinstance(value, torch.dtype | torch.Size | torch.layout):
        return Leaf.of(type(value).__name__, repr(value).encode(), repr(value))
    return None


def _module(value: Any, path: str, read: Read) -> Node:
    # state_dict() would gather shards: a collective.
    named = [*value.named_parameters(remove_duplicate=False), *value.named_buffers(remove_duplicate=False)]
    children = {label_of(name): read(tensor, path=path + label_of(name)) for name, tensor in named}
    return Branch(f"module {type(value).__name__}", children, size=len(named))


def _tensor(torch: Any, value: Any, look: FingerprintBudget, path: str) -> Node:
    kind = f"tensor {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if hasattr(value, "placements") or getattr(value, "_is_flat_param", False):
        look.note(f"only the layout of {path or 'the tensor'}, a shard")
        layout = f"{getattr(value, 'placements', 'flat')}"
        return Leaf.of(kind, layout.encode(), layout)
    value = value.detach()
    if value.is_meta or value.layout != torch.strided or value.is_quantized:
        if value.layout == torch.sparse_coo:
            value = value.coalesce().values()
            return _elements(torch, f"sparse {kind}", value, look, path)
        look.note(f"only the layout of {path or 'the tensor'}")
        return Leaf.of(f"{kind} {value.layout}", b"", "")
    if value.is_complex():
        value = torch.view_as_real(value)
    return _elements(torch, kind, value, look, path)


def _elements(torch: Any, kind: str, value: Any, look: FingerprintBudget, path: str) -> Node:
    flat = value.resolve_conj().reshape(-1) if value.is_conj() else value.reshape(-1)
    item = flat.element_size()
    ints = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[item]
    # a single number has no stride to speak of; reshape gives one dimension, so a view of the bits is possible
    bits = flat.contiguous().view(ints)

    def content(low: int, high: int) -> bytes:
        return bytes(bits[low:high].cpu().numpy().tobytes())

    def total(low: int, high: int) -> bytes:
        # The sum of integers is the same in any order and on any device.
        sums = [int(bits[at : min(at + _CHUNK, high)].sum(dtype=torch.int64)) for at in range(low, high, _CHUNK)]
        return repr(sums).encode()

    def show(index: int) -> str:
        return repr(flat[index].item())

    return elements_node(kind, tuple(value.shape), item, content, total, show, look, path)
