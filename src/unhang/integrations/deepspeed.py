"""``engine = guard(engine)``: phases, steps and checks for a DeepSpeed engine."""

from __future__ import annotations

from typing import Any, TypeVar

from unhang.integrations.marks import count_method, mark_method
from unhang.integrations.missing_library import missing_library_error
from unhang.integrations.same_start import PATIENCE_S, has_other_ranks, same_batches, same_parameters, same_settings

try:
    from deepspeed.runtime.engine import DeepSpeedEngine
    from deepspeed.runtime.pipe.engine import PipelineEngine
except ImportError as error:
    raise missing_library_error(__name__, "deepspeed", "deepspeed", error) from error

Engine = TypeVar("Engine", bound=DeepSpeedEngine)


def guard(
    engine: Engine,
    *,
    loader: Any = None,
    check: bool = True,
    save_s: float | None = None,
    patience_s: float = PATIENCE_S,
) -> Engine:
    """``engine`` itself, from now on with guards. On every rank, after ``deepspeed.initialize``.

    Compares the configuration, the parameters of the model (not of pipeline stages, which differ) and the batches of
    ``loader`` (the engine's own where not given) over the ranks; counts optimizer steps; ``save_checkpoint``,
    ``save_16bit_model`` and ``load_checkpoint`` are phases that begin when every rank is there, as DeepSpeed asks.

    Args:
        engine: what ``deepspeed.initialize`` gave first.
        loader: the loader of the training data.
        check: compare now.
        save_s: how long a save takes at most when all is well, in seconds.
        patience_s: so far apart ranks may come, in seconds.

    Raises:
        RanksDiffer: what was compared is not the same.
        RanksMissing: from a save that some ranks do not make.
    """
    mine: Any = engine
    staged = isinstance(engine, PipelineEngine)
    if check and has_other_ranks():
        same_settings(_settings(mine), "configuration of DeepSpeed", timeout_s=patience_s)
        if not staged:
            same_parameters(mine.module, timeout_s=patience_s)
        same_batches(loader if loader is not None else mine.training_dataloader, timeout_s=patience_s)
    if staged:
        count_method(mine, "train_batch")
        mark_method(mine, "eval_batch", "evaluation")
    else:
        count_method(mine, "step", lambda: bool(mine.is_gradient_accumulation_boundary()))
    for name in ("save_checkpoint", "save_16bit_model"):
        mark_method(mine, name, "save", meets=lambda: True, at_most_s=save_s, patience_s=patience_s)
    mark_method(mine, "load_checkpoint", "loading", meets=lambda: True, patience_s=patience_s)
    return engine


def _settings(engine: Any) -> dict[str, Any]:
    return dict(getattr(engine._config, "_param_dict", None) or {})  # noqa: SLF001 - as the user wrote it
