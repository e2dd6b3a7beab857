"""Every risk, in one list that a test compares with the folder."""

from __future__ import annotations

from types import ModuleType

from unhang.check.risks import (
    configuration,
    devices,
    driver,
    dry_run,
    limits,
    network,
    probe,
    sameness,
    storage,
    timers,
    topology,
    unnamed_device,
    variables,
    versions,
)
from unhang.check.risks.program import (
    program_clean_up,
    program_generation,
    program_group_made,
    program_left_out,
    program_listing,
    program_loader,
    program_log_flush,
    program_lonely_call,
    program_rank_given,
    program_set_order,
    program_single_rank,
    program_skipped_rows,
    program_split,
    program_uneven_loop,
)
from unhang.check.risks.risk import Risk


def _risks(module: ModuleType) -> tuple[Risk, ...]:
    if hasattr(module, "RISKS"):
        risks: tuple[Risk, ...] = module.RISKS
        return risks
    risk = Risk(
        module.__name__.rsplit(".", 1)[-1],
        module.CHECK,
        getattr(module, "ask", None),
        getattr(module, "compare", None),
    )
    return (risk,)


ALL_RISKS: tuple[Risk, ...] = tuple(
    risk
    for module in (
        variables,
        timers,
        versions,
        driver,
        devices,
        topology,
        configuration,
        program_lonely_call,
        program_rank_given,
        program_set_order,
        program_uneven_loop,
        program_generation,
        program_listing,
        program_group_made,
        program_left_out,
        program_clean_up,
        program_skipped_rows,
        program_split,
        program_single_rank,
        unnamed_device,
        program_loader,
        program_log_flush,
        limits,
        storage,
        network,
        probe,
        dry_run,
        sameness,
    )
    for risk in _risks(module)
)
