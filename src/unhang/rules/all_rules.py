"""Every rule, in one list that a test compares with the folder."""

from __future__ import annotations

from types import ModuleType

from unhang.rules.causes import (
    collective_mismatch,
    collective_mismatch_printed,
    collective_mismatch_survived,
    deadlock_order,
    deadlock_order_schedule,
    device_mapping,
    gpu_hardware,
    gpu_oom,
    gpu_oom_printed,
    host_memory,
    network_config,
    network_fault,
    p2p_broken,
    rank_conditional_collective,
    rank_conditional_collective_p2p,
    rank_conditional_collective_printed,
    rank_crashed,
    rank_crashed_from_outside,
    rank_crashed_gone,
    rank_frozen,
    rank_frozen_printed,
    rendezvous,
    rendezvous_stacks,
    single_rank_work,
    single_rank_work_printed,
    single_rank_work_slow,
    single_rank_work_went_on,
    slow_data_loading,
    slow_data_loading_printed,
    slow_data_loading_stray,
    slow_rank,
    timeout_too_short,
    timeout_too_short_limit,
    uneven_data,
    uneven_data_counts,
    unknown,
    unknown_complaints,
    unknown_named_ranks,
    unknown_slower_steps,
    unknown_timeouts_only,
    version_mismatch,
    version_mismatch_known,
)
from unhang.rules.rule import Rule


def _rule(module: ModuleType) -> Rule:
    return Rule(module.__name__.rsplit(".", 1)[-1], module.CAUSE, module.check, module.__doc__ or "")


ALL_RULES: tuple[Rule, ...] = tuple(
    _rule(module)
    for module in (
        collective_mismatch,
        collective_mismatch_printed,
        collective_mismatch_survived,
        deadlock_order,
        deadlock_order_schedule,
        device_mapping,
        gpu_hardware,
        gpu_oom,
        gpu_oom_printed,
        host_memory,
        network_config,
        network_fault,
        p2p_broken,
        rank_conditional_collective,
        rank_conditional_collective_p2p,
        rank_conditional_collective_printed,
        rank_crashed,
        rank_crashed_from_outside,
        rank_crashed_gone,
        rank_frozen,
        rank_frozen_printed,
        rendezvous,
        rendezvous_stacks,
        single_rank_work,
        single_rank_work_printed,
        single_rank_work_slow,
        single_rank_work_went_on,
        slow_data_loading,
        slow_data_loading_printed,
        slow_data_loading_stray,
        slow_rank,
        timeout_too_short,
        timeout_too_short_limit,
        uneven_data,
        uneven_data_counts,
        unknown,
        unknown_complaints,
        unknown_named_ranks,
        unknown_slower_steps,
        unknown_timeouts_only,
        version_mismatch,
        version_mismatch_known,
    )
)
