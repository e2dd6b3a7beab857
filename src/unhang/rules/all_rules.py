"""Every rule, in one list that a test compares with the folder."""

from __future__ import annotations

from types import ModuleType

from unhang.rules.causes import (
    collective_mismatch,
    deadlock_order,
    gpu_oom,
    rank_conditional_collective,
    rank_crashed,
    rank_frozen,
    single_rank_work,
    slow_data_loading,
    slow_rank,
    timeout_too_short,
    uneven_data,
    unknown,
)
from unhang.rules.rule import Rule


def _rule(module: ModuleType) -> Rule:
    return Rule(module.__name__.rsplit(".", 1)[-1], module.CAUSE, module.check, module.__doc__ or "")


ALL_RULES: tuple[Rule, ...] = tuple(
    _rule(module)
    for module in (
        collective_mismatch,
        deadlock_order,
        gpu_oom,
        rank_conditional_collective,
        rank_crashed,
        rank_frozen,
        single_rank_work,
        slow_data_loading,
        slow_rank,
        timeout_too_short,
        uneven_data,
        unknown,
    )
)
