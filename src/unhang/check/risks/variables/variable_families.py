"""What the risks about environment variables share: which are ours to judge, and what stall one would lead to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.check.environment.versions import Versions
from unhang.findings import Cause, Evidence, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.environment_variables import EnvironmentVariable, variable
from unhang.knowledge.job.parsed_values import ParsedValue, parse_value
from unhang.knowledge.job.variable_support import VariableSupport, nccl2_effect, variable_support
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting

CHECK = "environment"
FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCH_DISTRIBUTED_", "TORCH_DIST_", "TORCHELASTIC_", "GLOO_")
"""Names that begin so are meant for the libraries we know, also when no row knows them."""
_STALLS = (
    (("P2P", "SHM", "NVLS", "CUMEM", "MNNVL"), Cause.P2P_BROKEN),
    (("TIMEOUT", "HEARTBEAT", "WATCHDOG", "BLOCKING_WAIT"), Cause.TIMEOUT_TOO_SHORT),
    (("MASTER_", "RDZV", "WORLD_SIZE"), Cause.RENDEZVOUS),
    (("VISIBLE_DEVICES", "DEVICE_ORDER"), Cause.DEVICE_MAPPING),
    (("_IB_", "SOCKET", "NET", "IFNAME", "FI_", "UCX_", "OFI"), Cause.NETWORK_CONFIG),
    (("CUDA_LAUNCH_BLOCKING", "CONNECTIONS"), Cause.DEADLOCK_ORDER),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A variable that is set and known: how it stands in the versions at hand, and what its value is read as."""

    setting: VariableSetting
    row: EnvironmentVariable
    standing: VariableSupport
    parsed: ParsedValue
    version: str | None
    """Of the program that reads it."""
    nccl2: str = ""
    """What torch's rewritten NCCL backend does with it, where that is in force and it is known."""

    @property
    def evidence(self) -> Evidence:
        """The setting as it stands."""
        return quote(self.setting)


def judged(here: NodeInspection) -> Iterator[Judged]:
    """Every variable that is set and that a row knows, by name."""
    settings, versions = here.found(JobEnvironment), here.found(Versions) or Versions({})
    if settings is None:
        return
    for name, setting in sorted(settings.in_force.items()):
        row = variable(name)
        if row is None or row.name != name:
            continue
        version = versions.owner_of(row)
        rewritten = versions.nccl2(settings)
        stands = variable_support(row, version, nccl2=rewritten)
        effect = (nccl2_effect(name) or nccl2_effect(row.replacement)) if rewritten else ""
        yield Judged(setting, row, stands, parse_value(row, setting.value), version, effect)


def unknown_names(here: NodeInspection) -> Iterator[VariableSetting]:
    """Variables of a family we know that no row knows."""
    settings = here.found(JobEnvironment)
    if settings is None:
        return
    for name, setting in sorted(settings.in_force.items()):
        row = variable(name)
        if name.startswith(FAMILIES) and (row is None or row.name != name):
            yield setting


def quote(setting: VariableSetting) -> Evidence:
    """``NAME=value`` and where it stands."""
    return Evidence(Source(setting.origin, setting.line), f"{setting.name}={setting.value}")


def stall_of(name: str) -> Cause:
    """The stall that a wrong value of ``name`` would show up as."""
    return next((cause for words, cause in _STALLS if any(word in name for word in words)), Cause.UNKNOWN)
