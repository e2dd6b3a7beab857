"""What a rank starts with: random states, data loaders, parameters, versions, memory. torch only where it is loaded."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from unhang.inprocess import code_phases
from unhang.inprocess.internal_errors import environment_number

MAX_PARAMETERS, MAX_LOADERS = 1000, 64
SAMPLE = 256
"""Numbers of a tensor that are hashed: enough to tell two weights apart, and cheap on a card."""
PACKAGES = ("torch", "numpy", "transformers", "accelerate", "deepspeed", "datasets", "trl", "lightning", "peft")
_SHARDED_CLASSES = ("DTensor", "FlatParameter", "ShardedTensor")
_SHARDED_MARKS = ("ds_id", "_is_sharded", "tensor_model_parallel", "tensor_parallel")
_SHARDING_MODULES = ("FullyShardedDataParallel", "PipelineStage", "PipelineModule", "DeepSpeedEngine")


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: torch's word where the group stands, else the environment's, else one process."""
    distributed = sys.modules.get("torch.distributed")
    with suppress(Exception):
        if distributed is not None and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    return max(0, environment_number("RANK", 0)), max(1, environment_number("WORLD_SIZE", 1))


def versions() -> dict[str, str]:
    """Versions of what is loaded, as it names itself."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):
        if torch is not None and torch.version.cuda:
            found["cuda"] = str(torch.version.cuda)
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def random_states() -> dict[str, str]:
    """A hash of each generator that the program can draw from now; ``seed`` is torch's."""
    found: dict[str, str] = {}
    python, numpy, torch = (sys.modules.get(name) for name in ("random", "numpy.random", "torch"))
    with suppress(Exception):
        found["python"] = _hash(repr(python.getstate()).encode()) if python is not None else ""
    with suppress(Exception):
        if numpy is not None:
            kind, keys, *rest = numpy.get_state()
            found["numpy"] = _hash(kind.encode() + keys.tobytes() + repr(rest).encode())
    with suppress(Exception):
        if torch is not None:
            found["torch"] = _hash(torch.get_rng_state().numpy().tobytes())
            found["seed"] = str(torch.initial_seed())
    with suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            found["cuda"] = _hash(torch.cuda.get_rng_state().numpy().tobytes())
    return found


def memory() -> dict[str, int]:
    """Bytes: the most this process used (``host``), the most its card gave out (``card``) of ``card_size``."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError, IndexError), open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
        peak = next(line for line in file if line.startswith("VmHWM:"))
        found["host"] = int(peak.split()[1]) << 10
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            found["card"] = int(torch.cuda.max_memory_reserved())
            free, found["card_size"] = torch.cuda.mem_get_info()
            found["card_free"] = int(free)
    return found


def synchronize_device() -> None:
    """Wait until the card has done what was asked of it, so that a step's time is its own."""
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()


class DataLoaders:
    """The data loaders of this process, in the order in which they were made. None is kept alive."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, str, int, int]] = []
        self._order: dict[int, int] = {}
        self._told: dict[int, dict[str, Any]] = {}

    def made(self, loader: Any, frame: FrameType | None) -> None:
        """``loader`` was just made below ``frame``."""
        if len(self._known) >= MAX_LOADERS:
            return
        from weakref import ref

        file, line = _users_line(frame)
        nth = sum((known[1], known[2]) == (file, line) for known in self._known)
        self._known.append((ref(loader), file, line, nth))

    def read(self, loader: Any) -> bool:
        """``loader`` is read; whether this is its first time."""
        for at, (kept, *_) in enumerate(self._known):
            if kept() is loader and at not in self._order:
                self._order[at] = len(self._order)
                self._told[at] = _loader_document(loader)
                return True
        return False

    def told(self) -> list[dict[str, Any]]:
        """Everything about every loader; ``read`` is its place among those that were read, null for the others."""
        found = []
        for at, (kept, file, line, nth) in enumerate(self._known):
            loader = kept()
            known = self._told.get(at) or (_loader_document(loader) if loader is not None else None)
            if known is not None:
                found.append({"file": file, "line": line, "nth": nth, "read": self._order.get(at), **known})
        return found


def _loader_document(loader: Any) -> dict[str, Any]:
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "sampler", None)
    batches = getattr(loader, "batch_sampler", None)
    return {
        "steps": _length(loader),
        "batch": getattr(loader, "batch_size", None) or getattr(batches, "batch_size", None),
        "workers": int(getattr(loader, "num_workers", 0) or 0),
        "sampler": type(sampler).__name__,
        "batch_sampler": type(batches).__name__ if batches is not None else "",
        "dataset": type(dataset).__name__,
        "length": _length(dataset),
        "fingerprint": fingerprint(dataset),
    }


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except Exception:  # noqa: BLE001  an iterable data set has no length, or raises what it likes
        return None


def fingerprint(dataset: Any, depth: int = 4) -> str:
    """What the data set holds, told without reading an example; empty where that is unknown."""
    own = getattr(dataset, "_fingerprint", None)
    if isinstance(own, str):
        return own
    if depth and hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # torch's Subset, what random_split gives
        with suppress(Exception):
            return _hash(repr([int(i) for i in dataset.indices]).encode()) + fingerprint(dataset.dataset, depth - 1)
    tensors = getattr(dataset, "tensors", None)
    if isinstance(tensors, tuple):
        return _hash("".join(_values(tensor) + str(tuple(tensor.shape)) for tensor in tensors).encode())
    if isinstance(dataset, list | tuple) and dataset and isinstance(dataset[0], str | int | float | tuple):
        ends = [*dataset[:SAMPLE], *dataset[-SAMPLE:]]
        return _hash(repr((len(dataset), ends)).encode()) if all(map(_is_plain, ends)) else ""
    return ""


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def parameters(optimizer: Any) -> dict[str, Any]:
    """Names, shapes and hashes of what ``optimizer`` changes. ``kind``: ``ddp`` (a copy on every rank), ``sharded``
    (every rank has its own part), or ``plain``."""
    names, kind = _names()
    wanted = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    rows, values, shapes = [], hashlib.sha256(), hashlib.sha256()
    for at, parameter in enumerate(wanted):
        sharded = type(parameter).__name__ in _SHARDED_CLASSES or any(hasattr(parameter, m) for m in _SHARDED_MARKS)
        kind = "sharded" if sharded else kind
        shape = f"{str(parameter.dtype).removeprefix('torch.')}{list(parameter.shape)}"
        value = "" if sharded else _values(parameter)
        shapes.update(shape.encode())
        values.update(value.encode())
        if at < MAX_PARAMETERS:
            rows.append([names.get(id(parameter), f"#{at}"), shape, value[:8]])
    return {
        "kind": kind,
        "count": len(wanted),
        "shapes": shapes.hexdigest()[:16],
        "values": "" if kind == "sharded" else values.hexdigest()[:16],
        "rows": rows,
    }


def _names() -> tuple[dict[int, str], str]:
    """Names by parameter, from the models that are alive, and what they say about copies and shards."""
    module: Any = getattr(sys.modules.get("torch.nn"), "Module", None)
    names: dict[int, str] = {}
    kind = "plain"
    if module is None:
        return names, kind
    models = [thing for thing in gc.get_objects() if issubclass(type(thing), module)]
    for model in models:
        name = type(model).__name__
        if name in _SHARDING_MODULES or name.startswith("FSDP"):
            kind = "sharded"
        elif name == "DistributedDataParallel" and kind != "sharded":
            kind = "ddp"
        with suppress(Exception):
            for path, parameter in model.named_parameters():
                clean = path.replace("_orig_mod.", "").removeprefix("module.")
                if len(clean) > len(names.get(id(parameter), "")):
                    names[id(parameter)] = clean
    return names, kind


def _values(tensor: Any) -> str:
    try:
        return _hash(repr(tensor.detach().reshape(-1)[:SAMPLE].double().cpu().tolist()).encode())
    except Exception:  # noqa: BLE001  a tensor without storage, or of a type that has no numbers
        return ""


def _users_line(frame: FrameType | None) -> tuple[str, int]:
    while frame is not None:
        if code_phases.classify_file(frame.f_code.co_filename)[0]:
            here = f"{os.getcwd()}/"  # noqa: PTH109  as short as the user would name it
            return frame.f_code.co_filename.removeprefix(here), frame.f_lineno or 0
        frame = frame.f_back
    return "", 0


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
