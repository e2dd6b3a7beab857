"""``save_together(model, path)``: every rank takes part in gathering, rank 0 writes, and all learn how it went.

A state dict of a sharded model is a collective: saved under ``if rank == 0`` it waits for ranks that never come.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unhang.errors import MissingExtra, UsageError
from unhang.guards.exchange.rank_exchange import current_exchange
from unhang.guards.exchange.store_connection import GROUP_PREFIX
from unhang.guards.phases import phase
from unhang.guards.sameness import same_on_all_ranks
from unhang.guards.together import FINISH_S, together

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

_NAME = "save_together"
_slow: tuple[weakref.ref[Any], Any] | None = None


def save_together(
    model_or_state: Module | Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    optimizer: Optimizer | None = None,
    sharded: bool = False,
    timeout_s: float = 60.0,
    finish_s: float | None = None,
) -> Path:
    """Save a model (plain, DDP, FSDP, FSDP2) or a state dict; call it on every rank, never under ``if rank == 0``.

    Full (the default): one file, written by rank 0 beside ``path`` and moved there when it is whole. It holds the
    state dict of the model, or ``{"model": …, "optimizer": …}`` with an optimizer, or your state dict, and is read
    with ``torch.load``. Sharded: a folder that ``torch.distributed.checkpoint.load`` reads, written by all ranks and
    moved to ``path`` when all are done. Ranks that have nothing to write wait on the store, so no watchdog limit
    applies to slow storage, and an error of one rank is raised in all.

    Args:
        model_or_state: the module, or a state dict with the same keys on every rank.
        path: the file, or the folder when ``sharded``; the same on every rank.
        optimizer: saved with the module.
        sharded: each rank writes its own shards (torch.distributed.checkpoint).
        timeout_s: how far apart the ranks may come.
        finish_s: how long gathering and writing may take; half an hour when not given.

    Returns:
        ``path``, written when this returns.

    Raises:
        RanksMissing: ranks did not come to save, or did not finish.
        RankFailed: another rank failed: the disk is full, a shard could not be gathered.
        RanksDiffer: a state dict has other keys on other ranks, or shards are for another folder.
        OSError: this rank could not write.
        UsageError: neither a module nor a state dict, a state dict with an optimizer beside it, or no path.
    """
    target = _target(path)
    _refuse_what_cannot_be_saved(model_or_state, optimizer)
    here = current_exchange()
    with together(_NAME, timeout_s=timeout_s, finish_s=finish_s), phase("save", at_most_s=finish_s):
        if here is not None and isinstance(model_or_state, Mapping):
            same_on_all_ranks(sorted(map(str, model_or_state)), "keys of the state dict", timeout_s=timeout_s)
        if here is not None and sharded:  # else parts of the checkpoint would lie in different folders
            same_on_all_ranks(str(target), "the folder of save_together", timeout_s=timeout_s)
        state = _state(model_or_state, optimizer, sharded=sharded, alone=here is None)
        if sharded:
            _write_shards(state, target, finish_s or FINISH_S, alone=here is None)
        elif here is None or here.rank == 0:
            _write_file(state, target)
    if sharded:
        with together("save_together: move", timeout_s=timeout_s, finish_s=finish_s):
            _move_folder(target)
    return target


def _target(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise UsageError(f"save_together(path=…) must be a file name, not {path!r}") from None


def _refuse_what_cannot_be_saved(given: Any, optimizer: Any) -> None:
    if isinstance(given, Mapping) and optimizer is not None:
        raise UsageError(
            "save_together(state, optimizer=…): with your own state dict the optimizer would not be saved. Add it "
            '({"model": …, "optimizer": optimizer.state_dict()}), or pass the module'
        )
    if not isinstance(given, Mapping) and not hasattr(given, "named_children"):
        raise UsageError(f"save_together takes a module or a state dict, not {type(given).__name__}")


def _state(given: Any, optimizer: Any, *, sharded: bool, alone: bool) -> Any:
    """What is to be saved: whole on rank 0 (on the host), or this rank's shards. A collective for sharded models."""
    if isinstance(given, Mapping):
        return given if sharded or alone else _whole(given)
    if alone:
        model, opt = given.state_dict(), optimizer.state_dict() if optimizer is not None else None
    else:
        model, opt = _gathered(given, optimizer, sharded=sharded)
    return model if optimizer is None else {"model": model, "optimizer": opt}


def _gathered(model: Any, optimizer: Any, *, sharded: bool) -> tuple[Any, Any]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict

    options = StateDictOptions(full_state_dict=not sharded, cpu_offload=not sharded)
    found = get_model_state_dict(model, options=options)
    return found, get_optimizer_state_dict(model, optimizer, options=options) if optimizer is not None else None


def _whole(value: Any) -> Any:
    """``value`` with its distributed tensors gathered, in the order of the keys, and all tensors on the host."""
    if isinstance(value, Mapping):
        return {key: _whole(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_whole(item) for item in value)
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return value.detach().cpu() if hasattr(value, "detach") else value


def _write_file(state: Any, target: Path) -> None:
    """Write aside and move: a reader sees the file before or the one after, and a full disk leaves the one before."""
    torch = _torch()
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _write_shards(state: Any, target: Path, finish_s: float, *, alone: bool) -> None:
    from torch.distributed.checkpoint.state_dict_saver import save

    target.parent.mkdir(parents=True, exist_ok=True)
    save(state, checkpoint_id=_aside(target), process_group=None if alone else _slow_group(finish_s))


def _slow_group(finish_s: float) -> Any:
    """A Gloo group for the words of a save: storage may be slower than a limit of NCCL's. Made once."""
    global _slow  # noqa: PLW0603 - goes with the default group
    import torch.distributed as dist

    world = dist.distributed_c10d._get_default_group()  # noqa: SLF001 - torch 2.4 to 2.13 have no other way
    if _slow is None or _slow[0]() is not world:
        made = dist.new_group(
            backend="gloo", timeout=timedelta(seconds=finish_s), group_desc=f"{GROUP_PREFIX}save_together"
        )
        _slow = (weakref.ref(world), made)
    return _slow[1]


def _move_folder(target: Path) -> None:
    """Every rank has written. One of them (of each machine, where they share no files) moves the folder."""
    ours = target.with_name(f".{target.name}.{os.getpid()}.moving")
    try:
        _aside(target).rename(ours)
    except OSError:
        return  # another rank is at it
    before = target.with_name(f".{target.name}.{os.getpid()}.before")
    with suppress(FileNotFoundError):
        target.rename(before)
    ours.rename(target)
    shutil.rmtree(before, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.part")


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("save_together needs PyTorch: pip install torch") from error
    return torch
