"""Find every checkpoint below some folders, within bounds, and say of each whether it is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from unhang.evidence.checkpoints.checkpoint import Checkpoint, Flaw, checkpoint_of_files
from unhang.evidence.checkpoints.deepspeed import deepspeed_checkpoint, is_tag
from unhang.evidence.checkpoints.distributed import distributed_checkpoint, is_distributed
from unhang.evidence.checkpoints.transformers import is_transformers, transformers_checkpoint
from unhang.evidence.checkpoints.weight_files import TORCH_SUFFIXES, flaw_of_file

DEPTH = 4
MAX_FOLDERS = 2_000
MAX_FOUND = 64
"""The newest of them; a folder of years is not read whole."""
_PARTS = re.compile(r"rng_state|random_states|scheduler|optimizer|scaler|training_args|_\d+_mp_rank|events\.out")


def find_checkpoints(folders: Iterable[str | Path], *, world_size: int | None = None) -> tuple[Checkpoint, ...]:
    """Every checkpoint in ``folders`` and below, newest first; at most :data:`MAX_FOUND`. Raises nothing."""
    found: dict[str, Checkpoint] = {}
    left = [MAX_FOLDERS]
    for folder in folders:
        with suppress(OSError):
            for one in _below(Path(folder), world_size, DEPTH, left):
                found.setdefault(one.path, one)
    newest = sorted(found.values(), key=lambda one: (one.saved_s, one.step or 0), reverse=True)
    return tuple(newest[:MAX_FOUND])


def _below(folder: Path, world_size: int | None, depth: int, left: list[int]) -> Iterator[Checkpoint]:
    left[0] -= 1
    if left[0] < 0:
        return
    if folder.is_file():
        yield from _file_checkpoints([folder])
        return
    names = _names(folder)
    one = _folder_checkpoint(folder, names, world_size)
    if one is not None:
        yield one
        return
    yield from _file_checkpoints(folder / name for name in sorted(names))
    if depth > 0:
        inner = [folder / name for name in names if not name.startswith(".")]
        for path in sorted((p for p in inner if p.is_dir() and not p.is_symlink()), key=_modified_s, reverse=True):
            with suppress(OSError):
                yield from _below(path, world_size, depth - 1, left)


def _folder_checkpoint(folder: Path, names: set[str], world_size: int | None) -> Checkpoint | None:
    if is_transformers(folder, names):
        flaw, has_inner = _inner_flaw(folder, names, world_size)
        return transformers_checkpoint(folder, names, flaw, has_inner=has_inner)
    return _sharded_checkpoint(folder, names, world_size)


def _sharded_checkpoint(folder: Path, names: set[str], world_size: int | None) -> Checkpoint | None:
    if is_distributed(names):
        return distributed_checkpoint(folder, names)
    return deepspeed_checkpoint(folder, names, world_size) if is_tag(names) else None


def _inner_flaw(folder: Path, names: set[str], world_size: int | None) -> tuple[Flaw | None, bool]:
    """What is wrong with the sharded folder inside a Trainer's checkpoint, and whether there is one."""
    for name in sorted(names):
        path = folder / name
        if not path.is_dir():
            continue
        one = _sharded_checkpoint(path, _names(path), world_size)
        if one is not None:
            return (Flaw(one.flaw, f"{name}/{one.detail}") if one.flaw else None), True
    return None, False


def _file_checkpoints(paths: Iterable[Path]) -> Iterator[Checkpoint]:
    for path in paths:
        if path.suffix in (*TORCH_SUFFIXES, ".safetensors") and not _PARTS.search(path.name) and path.is_file():
            layout = "safetensors" if path.suffix == ".safetensors" else "torch"
            with suppress(OSError):
                yield checkpoint_of_files(path, layout, [path], flaw_of_file(path))


def _names(folder: Path) -> set[str]:
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries}


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
