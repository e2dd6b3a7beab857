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
    program_collectives,
    program_work,
    sameness,
    storage,
    timers,
    topology,
    unnamed_device,
    variables,
    versions,
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
        program_collectives,
        program_work,
        unnamed_device,
        limits,
        storage,
        network,
        probe,
        dry_run,
        sameness,
    )
    for risk in _risks(module)
)
