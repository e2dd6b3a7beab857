"""Plain values: numbers, texts, containers, data classes, configurations, and objects we know nothing about."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import json
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from unhang.guards.fingerprints.arrays import array_node
from unhang.guards.fingerprints.datasets import dataset_node, own_dataset_node
from unhang.guards.fingerprints.nodes import (
    Branch,
    FingerprintBudget,
    Leaf,
    Node,
    Span,
    digest_of,
    label_of,
    positions,
)
from unhang.guards.fingerprints.tensors import tensor_node
from unhang.guards.fingerprints.texts import text_node

_DEPTH = 24
_FEW = 256
_FEW_SCALARS = 16
_MANY = 1024
_RANKS_OWN = {
    *(
        "rank",
        "global_rank",
        "world_rank",
        "process_index",
        "distributed_rank",
        "ddp_rank",
        "node_rank",
        "machine_rank",
    ),
    *("local_rank", "local_process_index", "gpu", "gpu_id", "device_id", "local_gpu", "_rank", "_local_rank"),
}
_DEVICE = re.compile(r"(cuda|xpu|npu|hpu|mlu|musa):\d+")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LONG_NUMBER = 1000
_SCALARS = (bool, int, float, complex, str, bytes, bytearray, type(None))


def fingerprint(value: Any, look: FingerprintBudget, path: str = "") -> Node:
    """The tree of digests of ``value``. Reads it, never changes it, and leaves iterators alone."""
    if isinstance(value, _SCALARS):
        return _scalar(value)
    if id(value) in look.open_ids or len(look.open_ids) > _DEPTH:
        return Leaf.of("seen above", b"")
    look.open_ids.append(id(value))
    try:
        return _composed(value, look, path)
    finally:
        look.open_ids.pop()


def _composed(value: Any, look: FingerprintBudget, path: str) -> Node:
    read = functools.partial(fingerprint, look=look)
    for known in (tensor_node, dataset_node, array_node):
        node = known(value, look, path, read)
        if node is not None:
            return node
    value = _as_plain(value)
    if isinstance(value, _SCALARS):
        return _scalar(value)
    if isinstance(value, Mapping):
        return _mapping(type(value).__name__, value, look, path)
    if isinstance(value, AbstractSet):
        return _set(value, look)
    if isinstance(value, Sequence):
        return _sequence(value, look, path, 0, len(value), top=True)
    own = own_dataset_node(value, look, path, read)
    return own if own is not None else _other(value, look, path)


def _as_plain(value: Any) -> Any:
    """Configurations as mappings, enumerations and paths as texts; anything else as it is."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, argparse.Namespace | types.SimpleNamespace):
        return vars(value)
    omegaconf = sys.modules.get("omegaconf")
    if omegaconf is not None and isinstance(value, omegaconf.Container):
        return omegaconf.OmegaConf.to_container(value, resolve=False)
    if hasattr(type(value), "to_dict") and type(value).__module__.startswith("transformers."):
        return value.to_dict()
    if hasattr(type(value), "convert_tokens_to_ids") and hasattr(type(value), "get_vocab"):
        return _tokenizer(value)
    if isinstance(value, functools.partial):
        return {"partial": _name(value.func), "args": list(value.args), "keywords": value.keywords}
    if isinstance(value, range):
        return f"range({value.start}, {value.stop}, {value.step})"
    return value


def _tokenizer(value: Any) -> dict[str, Any]:
    """What makes texts the same tokens; how it pads and cuts at the moment belongs to the last call."""
    vocabulary = value.get_vocab()
    rules: dict[str, Any] = {}
    if (fast := getattr(value, "backend_tokenizer", None)) is not None:
        rules = json.loads(fast.to_str())
        rules = {part: rules[part] for part in rules if part not in ("padding", "truncation", "added_tokens")}
        rules["model"] = {part: held for part, held in (rules.get("model") or {}).items() if part != "vocab"}
    names = ("special_tokens_map", "chat_template", "padding_side", "truncation_side", "model_max_length")
    return {
        "vocabulary": sorted(vocabulary, key=lambda token: (vocabulary[token], token)),
        "rules": rules,
        **{name: getattr(value, name, None) for name in names},
    }


def _scalar(value: Any) -> Node:
    kind = type(value).__name__
    if isinstance(value, str) and (device := _DEVICE.fullmatch(value)):
        return Leaf.of("device", device[1].encode(), device[1])
    if isinstance(value, str | bytes | bytearray):
        return text_node(value)
    # Python writes no decimal digits of a number of thousands of them
    shown = hex(value) if isinstance(value, int) and value.bit_length() > _LONG_NUMBER else repr(value)
    return Leaf.of(kind, shown.encode(), shown)


def _mapping(kind: str, value: Mapping[Any, Any], look: FingerprintBudget, path: str) -> Node:
    keys = sorted(value, key=lambda key: (type(key).__name__, str(key)))
    if len(keys) <= 16 * _FEW:
        children = {label_of(key): _entry(key, value[key], look, path + label_of(key)) for key in keys}
        return Branch(kind, children, size=len(keys))
    chosen = positions(len(keys))

    def read(place: int) -> Node:
        key = keys[chosen[place]]
        return Branch("entry", {label_of(key): fingerprint(value[key], look), "key": _scalar(repr(key))})

    return look.series(kind, len(keys), path, [f"~{n}" for n in chosen], read)


def _entry(name: Any, value: Any, look: FingerprintBudget, path: str) -> Node:
    """The value under ``name``; what is each rank's own number is not compared, nor are numbers of devices."""
    if isinstance(value, int) and str(name).lower() in _RANKS_OWN:
        look.note(f"not {path}, a rank's own number")
        return Leaf.of("own number", b"")
    return fingerprint(value, look, path)


def _set(value: AbstractSet[Any], look: FingerprintBudget) -> Node:
    nodes = [fingerprint(item, look) for item in value]
    by_digest = {node.digest({}): node for node in nodes}
    return Branch(type(value).__name__, {f" entry {d}": by_digest[d] for d in sorted(by_digest)}, size=len(value))


def _sequence(value: Sequence[Any], look: FingerprintBudget, path: str, low: int, high: int, *, top: bool) -> Node:
    """``value[low:high]``: each entry a part where there are few, else blocks of entries."""
    kind, size = (type(value).__name__ if top else "entries"), high - low
    if (not top or _FEW_SCALARS < size <= _MANY) and (alike := _alike(value[low:high])) is not None:
        return _block(kind, alike, value, low, high)
    if size <= _FEW:
        entries = {f"[{n}]": fingerprint(value[n], look, f"{path}[{n}]") for n in range(low, high)}
        return Branch(kind, entries, size=size)
    step = max(_FEW, -(-size // _MANY))
    starts = range(low, high, step)

    def read(place: int) -> Node:
        return _sequence(value, look, path, starts[place], min(starts[place] + step, high), top=False)

    return look.series(kind, size, path, [f"~{start}" for start in starts], read, covers=step)


def _block(kind: str, hashed: str, value: Sequence[Any], low: int, high: int) -> Span:
    """Entries of plain numbers or texts, hashed at once: millions a second."""
    step = -(-(high - low) // _MANY)

    def shorter(at: int) -> Node:
        end = min(at + step, high)
        return _block("entries", _alike(value[at:end]) or "", value, at, end)

    def cut() -> dict[str, Callable[[], Node]]:
        if step == 1:
            return {f"[{n}]": functools.partial(_scalar, value[n]) for n in range(low, high)}
        return {f"~{at}": functools.partial(shorter, at) for at in range(low, high, step)}

    return Span(kind, hashed, cut, size=high - low)


def _alike(entries: Sequence[Any]) -> str | None:
    """A digest of all ``entries`` when they are plain numbers or short texts, else None."""
    kinds = set(map(type, entries))
    if not kinds <= {int, float, bool, str}:
        return None
    return digest_of([repr(list(entries)).encode("utf-8", "surrogatepass")])


def _other(value: Any, look: FingerprintBudget, path: str) -> Node:
    """An object we know nothing about: its type, and what it holds in plain sight."""
    if isinstance(value, type) or callable(getattr(value, "__code__", None) or None):
        return Leaf.of("type", _name(value).encode(), _name(value))
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType | functools.partial):
        name = _name(value)
        return Leaf.of("function", name.encode(), name)
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        plain = {name: item for name, item in held.items() if _in_plain_sight(item)}
        return _mapping(_name(type(value)), plain, look, path)
    shown = _ADDRESS.sub("", repr(value)) if "__repr__" in vars(type(value)) else _name(type(value))
    return Leaf.of(_name(type(value)), shown.encode(), shown)


def _in_plain_sight(item: Any) -> bool:
    if isinstance(item, _SCALARS):
        return True
    if isinstance(item, Mapping | list | tuple | set | frozenset) and len(item) <= 16 * _FEW:
        inside: Iterable[Any] = item.values() if isinstance(item, Mapping) else item
        return all(isinstance(entry, _SCALARS) for entry in inside)
    return False


def _name(value: Any) -> str:
    if isinstance(value, functools.partial):
        return f"partial({_name(value.func)})"
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
