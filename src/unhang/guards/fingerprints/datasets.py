"""Data sets: torch (map-style, Subset, Concat, Tensor), Hugging Face, WebDataset, and loaders around them.

Rows are read at fixed positions spread over the whole, with the random states set aside, so that an augmentation
draws the same numbers everywhere. Streams are never started: only how they are set up is compared.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from unhang.guards.fingerprints.arrays import Read
from unhang.guards.fingerprints.nodes import Branch, FingerprintBudget, Leaf, Node, positions

_TRIED_TWICE = 3


def dataset_node(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node | None:
    """A tree for data sets, samplers and loaders; None for anything else."""
    datasets = sys.modules.get("datasets")
    if datasets is not None:
        if isinstance(value, datasets.Dataset):
            return _hugging_face(value, look, path, read)
        if isinstance(value, datasets.IterableDataset):
            return _hugging_face_stream(value, look, path, read)
    torch = sys.modules.get("torch")
    return None if torch is None else _torch_data(torch.utils.data, value, look, path, read)


def own_dataset_node(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node | None:
    """A tree for an object we know nothing about that is a data set all the same; None where it is not."""
    return _rows(value, len(value), positions(len(value)), look, path, read) if _gives_rows(value) else None


def _gives_rows(value: Any) -> bool:
    """Whether it is a data set of the program's own kind: ``len(value)`` and ``value[0]`` say something."""
    own = type(value)
    if isinstance(value, type) or not (hasattr(own, "__len__") and hasattr(own, "__getitem__")):
        return False
    try:
        with _same_chance(0):
            return len(value) > 0 and value[0] is not None
    except Exception:  # noqa: BLE001 - the program's own code: it takes other keys than places
        return False


def _torch_data(data: Any, value: Any, look: FingerprintBudget, path: str, read: Read) -> Node | None:
    if isinstance(value, data.DataLoader):
        return _loader(value, look, path, read)
    if isinstance(value, data.TensorDataset):
        return _branch(value, path, read, size=len(value), tensors=value.tensors)
    if isinstance(value, data.Subset):
        return _subset(value, look, path, read)
    if isinstance(value, data.ConcatDataset):
        return _branch(value, path, read, size=len(value), datasets=value.datasets)
    if isinstance(value, data.IterableDataset):
        return _stream(value, look, path, read)
    if isinstance(value, data.Dataset) and hasattr(value, "__len__"):
        return _rows(value, len(value), positions(len(value)), look, path, read)
    return None


def _branch(value: Any, path: str, read: Read, *, size: int | None = None, **parts: Any) -> Branch:
    children = {f".{name}": read(part, path=f"{path}.{name}") for name, part in parts.items()}
    return Branch(type(value).__name__, children, size=size)


def _loader(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node:
    """A data loader: its data set and how it is cut. Its sampler may well belong to the rank."""
    look.note(f"{path}.sampler, which may be the rank's own")
    cut = {"batch_size": value.batch_size, "drop_last": value.drop_last, "sampler": type(value.sampler).__name__}
    return _branch(value, path, read, dataset=value.dataset, cut=cut)


def _subset(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node:
    indices = value.indices
    inner = value.dataset
    children = {".indices": read(indices, path=f"{path}.indices")}
    if hasattr(inner, "__len__") and len(indices):
        chosen = [int(indices[n]) for n in positions(len(indices))]
        children[".rows"] = _rows(inner, len(indices), chosen, look, f"{path}.rows", read)
    return Branch("Subset", children, size=len(indices))


def _rows(data: Any, size: int, chosen: list[int], look: FingerprintBudget, path: str, read: Read) -> Node:
    """Rows ``chosen`` of a data set whose ``__getitem__`` is the user's own code."""
    kind = type(data).__name__

    def row(place: int) -> Node:
        with _same_chance(place):
            item = data[chosen[place]]
        return read(item)

    if any(row(n).digest({}) != row(n).digest({}) for n in range(min(_TRIED_TWICE, len(chosen)))):
        look.note(f"only the length of {path or 'it'}: the same row reads differently each time")
        return Leaf.of(kind, str(size).encode(), f"{size} rows", size)
    return look.series(kind, size, path, [f"[{n}]" for n in chosen], row)


def _hugging_face(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node:
    # The arrow form: no image or sound is decoded, no transform of the user's runs.
    table = value.with_format("arrow")
    chosen = positions(len(value))
    stored = getattr(value, "_data", None)
    if stored is not None and stored.num_columns == 0:
        chosen = []

    def row(place: int) -> Node:
        return read(table[chosen[place]].to_pylist()[0])

    children: dict[str, Node] = {
        ".features": read({name: str(kind) for name, kind in value.features.items()}),
        "": look.series("rows", len(value), path, [f"[{n}]" for n in chosen], row),
    }
    return Branch("Dataset", children, f"fingerprint {getattr(value, '_fingerprint', '')}", len(value))


def _hugging_face_stream(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node:
    look.note(f"not the rows of {path or 'the stream'}")
    features = {name: str(kind) for name, kind in (value.features or {}).items()}
    return _branch(value, path, read, features=features, shards=getattr(value, "num_shards", None))


def _stream(value: Any, look: FingerprintBudget, path: str, read: Read) -> Node:
    look.note(f"not the rows of {path or 'the stream'}")
    pipeline = getattr(value, "pipeline", None)
    if isinstance(pipeline, list):  # webdataset: what each stage was given
        stages = [_stage(stage) for stage in pipeline]
        return _branch(value, path, read, stages=stages, length=getattr(value, "size", None))
    plain = {name: item for name, item in vars(value).items() if isinstance(item, str | int | float | list | tuple)}
    return _branch(value, path, read, settings=plain, length=reported_length(value))


def _stage(stage: Any) -> Any:
    """The name and settings of a stage of a WebDataset; seeds drawn by the library itself are left out."""
    held = getattr(stage, "__dict__", {})
    shards = held.get("urls")
    name = getattr(stage, "__name__", None) or getattr(held.get("f"), "__name__", None) or type(stage).__name__
    given = [item for item in held.get("args", ()) if isinstance(item, str | int | float | bool)]
    return {"stage": name, "shards": list(shards) if shards is not None else None, "given": given}


def reported_length(data: Any) -> int | None:
    """What ``len(data)`` says; None where it says nothing."""
    try:
        return len(data)
    except (TypeError, NotImplementedError, AttributeError):
        return None


@contextmanager
def _same_chance(seed: int) -> Iterator[None]:
    """Random numbers that depend on ``seed`` only; afterwards the states are what they were."""
    restore: list[Callable[[], None]] = []
    restore.append(functools.partial(random.setstate, random.getstate()))
    random.seed(seed)
    if (np := sys.modules.get("numpy")) is not None:
        restore.append(functools.partial(np.random.set_state, np.random.get_state()))
        np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        restore.append(functools.partial(torch.random.default_generator.set_state, torch.get_rng_state()))
        torch.random.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        for undo in restore:
            undo()
