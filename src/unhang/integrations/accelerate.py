"""``accelerator = guard(Accelerator())``: phases, steps and checks for a loop of one's own over Accelerate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from unhang.guards.background_writer import BackgroundWriter
from unhang.integrations.marks import count_method, mark_method, wrap_method
from unhang.integrations.missing_library import missing_library_error
from unhang.integrations.same_start import PATIENCE_S, has_other_ranks, same_batches, same_parameters

try:
    from accelerate import DistributedType
    from accelerate.optimizer import AcceleratedOptimizer
    from torch.nn import Module
    from torch.utils.data import DataLoader
except ImportError as error:
    raise missing_library_error(__name__, "accelerate", "accelerate", error) from error

Accelerator = TypeVar("Accelerator")
_SHARDED = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def guard(
    accelerator: Accelerator,
    *,
    check: bool = True,
    background_logs: bool = False,
    save_s: float | None = None,
    patience_s: float = PATIENCE_S,
) -> Accelerator:
    """``accelerator`` itself, from now on with guards. On every rank, before ``prepare``.

    ``prepare`` compares the parameters of models and the batches of loaders over the ranks; each step of the first
    optimizer counts; ``save_state``, ``save_model``, ``load_state`` and ``log`` are phases, and where the model is
    sharded (FSDP, DeepSpeed) a save begins when every rank is there. Evaluation is yours:
    ``with unhang.phase("evaluation")``.

    Args:
        accelerator: an ``accelerate.Accelerator``.
        check: compare in ``prepare``.
        background_logs: a thread of its own writes to the TensorBoard and W&B trackers.
        save_s: how long a save takes at most when all is well, in seconds.
        patience_s: so far apart ranks may come, in seconds.

    Raises (from ``prepare`` and the saves):
        RanksDiffer: what was compared is not the same.
        RanksMissing: some ranks do not come to a sharded save.
    """
    mine: Any = accelerator
    _guard_prepare(mine, check=check, patience_s=patience_s)

    def sharded() -> bool:
        return mine.distributed_type in _SHARDED

    for name in ("save_state", "save_model"):
        mark_method(mine, name, "save", meets=sharded, at_most_s=save_s, patience_s=patience_s)
    mark_method(mine, "load_state", "loading")
    mark_method(mine, "log", "logging")
    if background_logs:
        _guard_trackers(mine)
    return accelerator


def _guard_prepare(accelerator: Any, *, check: bool, patience_s: float) -> None:
    counted = False

    def prepare(prepared: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal counted
        comparing = check and has_other_ranks()
        for given in args if comparing else ():
            if isinstance(given, Module):
                same_parameters(given, f"parameters of {type(given).__name__}", timeout_s=patience_s)
        made = prepared(*args, **kwargs)
        loaders = 0
        for part in made if isinstance(made, tuple) else (made,):
            if isinstance(part, AcceleratedOptimizer) and not counted:
                counted = True
                count_method(part, "step", lambda: bool(accelerator.sync_gradients))
            elif isinstance(part, DataLoader) and comparing:
                loaders += 1
                same_batches(part, f"prepared loader {loaders}", timeout_s=patience_s)
        return made

    wrap_method(accelerator, "prepare", prepare)


def _guard_trackers(accelerator: Any) -> None:
    def init_trackers(started: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = started(*args, **kwargs)
        for tracker in accelerator.trackers:
            handle = {"tensorboard": "writer", "wandb": "run"}.get(tracker.name, "")
            writer = getattr(tracker, handle, None) if handle else None
            if writer is not None and not isinstance(writer, BackgroundWriter):
                setattr(tracker, handle, BackgroundWriter(writer))
        return result

    wrap_method(accelerator, "init_trackers", init_trackers)
