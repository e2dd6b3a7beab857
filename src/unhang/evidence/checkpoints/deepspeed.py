"""DeepSpeed: a folder a tag, a file a rank in it; ``latest`` beside the tags is written after all ranks are done.

Source: deepspeed 0.19 runtime/engine.py (``save_checkpoint``, ``_get_zero_ckpt_name``, ``_get_ckpt_name``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from unhang.evidence.checkpoints.checkpoint import (
    RANKS,
    UNFINISHED,
    Checkpoint,
    Flaw,
    checkpoint_of_files,
    step_in_name,
)
from unhang.evidence.checkpoints.weight_files import flaw_of_parts
from unhang.knowledge import numbers

_MODEL = re.compile(r"(?:zero_pp_rank_\d+_)?mp_rank_\d+_model_states\.pt$")
_OPTIMIZER_SHARD = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$")
LATEST = "latest"


def is_tag(names: set[str]) -> bool:
    """Whether a folder with these ``names`` is one tag."""
    return any(_MODEL.match(name) or _OPTIMIZER_SHARD.match(name) for name in names)


def deepspeed_checkpoint(folder: Path, names: set[str], world_size: int | None) -> Checkpoint:
    """The checkpoint of one tag. ``world_size``: of the job that wrote it, as far as known."""
    parts = sorted(name for name in names if _MODEL.match(name) or _OPTIMIZER_SHARD.match(name))
    flaw = _flaw_of_ranks(names, world_size) or flaw_of_parts(folder, parts) or _flaw_of_latest(folder)
    return checkpoint_of_files(folder, "deepspeed", [folder / name for name in parts], flaw)


def _shard_ranks(found: re.Match[str]) -> Iterator[tuple[int, int]]:
    """(model-parallel rank, data-parallel rank) of the name of one share."""
    model, rank = numbers.rank(found[2]), numbers.rank(found[1])
    if model is not None and rank is not None:
        yield model, rank


def _flaw_of_ranks(names: set[str], world_size: int | None) -> Flaw | None:
    """Every data-parallel rank writes its share of the optimizer, for every model-parallel one."""
    shares = {(model, rank) for name in names if (m := _OPTIMIZER_SHARD.match(name)) for model, rank in _shard_ranks(m)}
    if not shares:
        return None
    models = {model for model, _ in shares}
    expected = max(rank for _, rank in shares) + 1
    if world_size is not None and world_size % len(models) == 0:
        expected = max(expected, world_size // len(models))
    if len(shares) < expected * len(models):
        return Flaw(RANKS, f"{len(shares)} of {expected * len(models)}")
    return None if any(_MODEL.match(name) for name in names) else Flaw(UNFINISHED, "mp_rank_00_model_states.pt")


def _flaw_of_latest(folder: Path) -> Flaw | None:
    """``latest`` names an older tag, or none: this one was not finished."""
    latest = folder.parent / LATEST
    try:
        named = latest.read_text(encoding="utf-8", errors="replace")[:4096].strip() if latest.is_file() else ""
    except OSError:
        return None
    if not named:
        others = [path for path in folder.parent.iterdir() if path.is_dir() and path != folder]
        return Flaw(UNFINISHED, LATEST) if not any(_is_tag_folder(path) for path in others) else None
    ours, theirs = step_in_name(folder.name), step_in_name(named)
    newer = ours is not None and theirs is not None and ours > theirs
    return Flaw(UNFINISHED, LATEST) if newer else None


def _is_tag_folder(folder: Path) -> bool:
    return is_tag({path.name for path in folder.iterdir()})
