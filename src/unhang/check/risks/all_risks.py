"""Every risk, in one list that a test compares with the folder."""

from __future__ import annotations

from unhang.check.risks import (
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
    variables,
    versions,
)
from unhang.check.risks.program import collectives, configuration, configuration_constraints, unnamed_device, work
from unhang.check.risks.risk import Risk

ALL_RISKS: tuple[Risk, ...] = (
    *variables.RISKS,
    *timers.RISKS,
    *versions.RISKS,
    *driver.RISKS,
    *devices.RISKS,
    *topology.RISKS,
    *configuration.RISKS,
    *configuration_constraints.RISKS,
    *collectives.RISKS,
    *work.RISKS,
    *unnamed_device.RISKS,
    *limits.RISKS,
    *storage.RISKS,
    *network.RISKS,
    *probe.RISKS,
    *dry_run.RISKS,
    *sameness.RISKS,
)
