"""Every risk, in one list that a test compares with the folder."""

from __future__ import annotations

from types import ModuleType

from unhang.rules.risks import (
    batch_arithmetic,
    disk_space,
    dispatched_batches,
    full_state_dict,
    generation_time,
    grpo_generations,
    limit_far_away,
    limit_not_in_force,
    limit_of_subgroups,
    limits_in_order,
    locked_memory,
    memory_limit,
    open_files,
    parallel_degrees,
    program_loader,
    program_lonely_call,
    program_split,
    recorder,
    shared_memory,
    storage_answers,
    storage_appends,
    storage_checkpoint,
    storage_files,
    storage_kind,
    storage_reads,
    storage_writable,
    tracing,
    variable_conflict,
    variable_costly,
    variable_dead,
    variable_not_known,
    variable_old_name,
    variable_shadowed,
    variable_value,
    version_known,
)
from unhang.rules.risks.risk import Risk


def _risk(module: ModuleType) -> Risk:
    return Risk(
        module.__name__.rsplit(".", 1)[-1],
        module.CHECK,
        module.__doc__ or "",
        getattr(module, "ask", None),
        getattr(module, "compare", None),
    )


ALL_RISKS: tuple[Risk, ...] = tuple(
    _risk(module)
    for module in (
        variable_costly,
        variable_value,
        variable_conflict,
        variable_old_name,
        variable_dead,
        variable_not_known,
        variable_shadowed,
        recorder,
        version_known,
        limit_far_away,
        limit_of_subgroups,
        limit_not_in_force,
        limits_in_order,
        batch_arithmetic,
        parallel_degrees,
        grpo_generations,
        generation_time,
        dispatched_batches,
        full_state_dict,
        program_lonely_call,
        program_split,
        program_loader,
        shared_memory,
        locked_memory,
        open_files,
        memory_limit,
        tracing,
        storage_answers,
        storage_writable,
        disk_space,
        storage_appends,
        storage_checkpoint,
        storage_files,
        storage_reads,
        storage_kind,
    )
)
