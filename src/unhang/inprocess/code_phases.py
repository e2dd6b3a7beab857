"""Which phase a line belongs to: a small table by module path, looked up once a file."""

from __future__ import annotations

import os
import sys

PHASE_BY_PATH = (
    ("/torch/distributed/rendezvous", "init"),
    ("/torch/distributed/elastic/", "init"),
    ("/torch/distributed/checkpoint/", "save"),
    ("/torch/distributed/optim/", "compute"),
    ("/torch/distributed/fsdp/", "compute"),
    ("/torch/distributed/pipelining/", "compute"),
    ("/torch/distributed/algorithms/", "compute"),
    ("/torch/distributed/tensor/", "compute"),
    ("/torch/distributed/", "communication"),
    ("/torch/utils/data/", "data"),
    ("/torch/utils/tensorboard/", "log"),
    ("/torch/serialization.py", "save"),
    ("/torch/cuda/", "compute"),
    ("/torch/nn/", "compute"),
    ("/torch/optim/", "compute"),
    ("/torch/autograd/", "compute"),
    ("/torch/_tensor.py", "compute"),
    ("/torch/_dynamo/", "compute"),
    ("/torch/_inductor/", "compute"),
    ("/torch/_functorch/", "compute"),
    ("/triton/", "compute"),
    ("/deepspeed/comm/", "communication"),
    ("/deepspeed/", "compute"),
    ("/safetensors/", "save"),
    ("/datasets/", "data"),
    ("/tokenizers/", "data"),
    ("/webdataset/", "data"),
    ("/torchdata/", "data"),
    ("/torchvision/datasets/", "data"),
    ("/PIL/", "data"),
    ("/huggingface_hub/", "data"),
    ("/wandb/", "log"),
    ("/mlflow/", "log"),
    ("/tensorboard/", "log"),
    ("/tensorboardX/", "log"),
    ("/tqdm/", "log"),
    ("/logging/__init__.py", "log"),
)
"""A part of a file's path and its phase, the first that fits."""

PHASE_BY_FUNCTION = {
    "init_process_group": "init",
    "destroy_process_group": "shutdown",
    "_shutdown": "shutdown",
    "save_checkpoint": "save",
    "save_pretrained": "save",
    "save_model": "save",
    "_save_checkpoint": "save",
    "evaluate": "eval",
    "evaluation_loop": "eval",
    "validate": "eval",
    "validation_step": "eval",
    "run_evaluation": "eval",
}
"""Functions whose name says it."""
_OUTER = {"eval", "save"}
_WAITING_MODULES = (
    "/threading.py",
    "/queue.py",
    "/selectors.py",
    "/asyncio/",
    "/concurrent/futures/",
    "/multiprocessing/",
)

_INSTALLED = ("/site-packages/", "/dist-packages/")
_PYTHON = tuple(
    {
        f"{os.path.realpath(prefix)}/lib/python{sys.version_info.major}.{sys.version_info.minor}/"
        for prefix in (sys.prefix, sys.base_prefix)
    }
    | {os.path.dirname(os.__file__) + "/"}  # noqa: PTH120
)
_PACKAGE = __file__.rpartition("/inprocess/")[0]
_OURS = tuple(f"{_PACKAGE}/{room}/" for room in ("inprocess", "guards", "integrations"))
"""What runs inside the user's process; a program of the lab is the user's own."""
_FILES = 20000
_cache: dict[str, tuple[bool, str, bool]] = {}


def classify_file(path: str) -> tuple[bool, str, bool]:
    """Whether the line is the user's own, the phase its path says (empty: none), whether threads wait in there."""
    known = _cache.get(path)
    if known is None:
        if len(_cache) >= _FILES:
            _cache.clear()
        known = _cache[path] = _classify(path)
    return known


def _classify(path: str) -> tuple[bool, str, bool]:
    library = path.startswith(("<frozen", *_PYTHON, *_OURS)) or any(part in path for part in _INSTALLED)
    if not library:
        return not path.startswith("<"), "", False
    phase = next((phase for part, phase in PHASE_BY_PATH if part in path), "")
    return False, phase, any(part in path for part in _WAITING_MODULES)


def phase_of_stack(frames: list[tuple[str, str]]) -> str:
    """The phase of a stack of (file, function), innermost first: what the innermost line with a meaning does.

    Computing inside a function that evaluates or saves is evaluating or saving; communicating stays communicating.
    """
    found = ""
    for path, function in frames:
        phase = PHASE_BY_FUNCTION.get(function, "") or classify_file(path)[1]
        if not phase:
            continue
        if not found:
            found = phase
        if found not in ("compute", "") or phase in _OUTER:
            return phase if found == "compute" else found
    return found or "other"
