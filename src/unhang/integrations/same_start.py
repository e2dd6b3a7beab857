"""What has to be the same on all ranks before the first step: batches, settings, parameters.

What stalls a job is an error (``RanksDiffer``); what only looks odd, such as data sets of other lengths that still give
as many batches, is a line on standard error. A store that cannot be met on never stops a training here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unhang.errors import RanksDiffer, StoreLost
from unhang.guards.even_batches import EvenBatches
from unhang.guards.exchange.printing import print_message
from unhang.guards.exchange.rank_exchange import current_exchange
from unhang.guards.fingerprints.datasets import reported_length
from unhang.guards.sameness import same_on_all_ranks
from unhang.guards.together import together

PATIENCE_S = 300.0
"""So far apart ranks may come to a start, a save or an evaluation; half of NCCL's limit, so the guard is the first."""


def same_batches(loader: Any, what: str = "training", *, timeout_s: float = PATIENCE_S) -> None:
    """Compare the batches an epoch of ``loader`` has on each rank, and the rows of its data set.

    A loader without a length (a stream) and one that ``even_batches`` keeps even are not compared.

    Raises:
        RanksDiffer: some ranks have more batches.
    """
    if loader is None or isinstance(loader, EvenBatches):
        return
    same_on_all_ranks(reported_length(loader), f"batches per epoch of {what}", timeout_s=timeout_s)
    try:
        same_on_all_ranks(reported_length(getattr(loader, "dataset", None)), f"rows of {what}", timeout_s=timeout_s)
    except RanksDiffer as error:  # as many batches all the same: nothing stalls
        print_message(f"{error.words}\n  All ranks get the same number of batches, so training continues.")


def same_settings(
    settings: Mapping[str, Any], what: str, *, ignore: tuple[str, ...] = (), timeout_s: float = PATIENCE_S
) -> None:
    """Compare ``settings`` without the names in ``ignore``.

    Raises:
        RanksDiffer: with the first that differs.
    """
    same_on_all_ranks({k: v for k, v in settings.items() if k not in ignore}, what, timeout_s=timeout_s)


def same_parameters(model: Any, what: str = "parameters of the model", *, timeout_s: float = PATIENCE_S) -> None:
    """Compare names, whole shapes, types and ``requires_grad`` of the parameters; never their values.

    Raises:
        RanksDiffer: with the first that differs.
    """
    same_on_all_ranks(describe_parameters(model), what, timeout_s=timeout_s)


def describe_parameters(model: Any) -> dict[str, str]:
    """Name and form of each parameter. Experts of a mixture live on some ranks only and are left out; shards of FSDP's
    first version differ by rank, so only their names count."""
    cut = any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())
    found: dict[str, str] = {}
    for name, value in model.named_parameters():
        if getattr(value, "allreduce", True) is False:  # DeepSpeed's and Megatron's mark of an expert
            continue
        shape = "" if cut else f"{tuple(getattr(value, 'ds_shape', value.shape))} "
        trained = "" if value.requires_grad else ", frozen"
        found[name] = f"{shape}{str(value.dtype).removeprefix('torch.')}{trained}"
    return found


def wait_for_all_ranks(name: str, *, timeout_s: float = PATIENCE_S) -> None:
    """``together(name)``; where ranks cannot meet, nothing.

    Raises:
        RanksMissing: ranks did not come.
    """
    try:
        together(name, timeout_s=timeout_s)
    except StoreLost as error:
        print_message(f"{name}: the ranks were not compared: {error}")


def has_other_ranks() -> bool:
    """Whether there are ranks to compare with."""
    try:
        return current_exchange() is not None
    except StoreLost:
        return False
