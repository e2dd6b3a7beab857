"""The collective probe: real ranks do what the job will do, in processes of their own that are ended whatever happens.

Not asked unless it is named (``--only probe``) or wished for (``--probe``): it puts work on the cards, which another
job may be using. Under a launcher every rank takes part with its own ``unhang check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unhang.check.environment import collect_environment
from unhang.check.probe_results.probe_results import ProbeResult, find_answer
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings import configuration_files
from unhang.program.settings.job_values import job_value
from unhang.sentences import say

NAME = "probe"
LIMIT_S = 400.0
"""Of its own limits the sum: a meeting, everything once, two rounds apart, slow pairs once more."""
DEFAULT = False
_PROBE_LIMIT_S = LIMIT_S - 10
_DEGREES = {
    "tensor_parallel": ("parallelism.tensor_parallel_degree", "tensor_model_parallel_size", "tensor_parallel_size"),
    "context_parallel": ("parallelism.context_parallel_degree", "context_parallel_size"),
    "expert_parallel": ("parallelism.expert_parallel_degree", "expert_model_parallel_size"),
    "pipeline_parallel": ("parallelism.pipeline_parallel_degree", "pipeline_model_parallel_size"),
    "shard": ("parallelism.data_parallel_shard_degree", "zero_hpz_partition_size"),
}
HOW = "unhang check --only probe"


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Run the probe and read its answer."""
    here = NodeInspection(results=dict(configuration_files.collect(machine, plan)))
    settings = dict(collect_environment.collect(machine, plan))[JobEnvironment].found
    told = {one.name: one.value for one in settings.in_force.values() if one.origin == "command"} if settings else {}
    yield ProbeResult, _probed(machine, probe_arguments(here), told)


def probe_arguments(here: NodeInspection) -> list[str]:
    """How many ranks and which group sizes the planned job will have, as words for the probe."""
    words = ["probe"]
    launch = here.found(Launch) or Launch()
    if launch.processes is not None:
        words += ["--ranks", str(launch.processes)]
    if launch.world_size is not None:
        words += ["--planned", str(launch.world_size)]
    for scope, names in _DEGREES.items():
        value = job_value(here, *names)
        if value is not None and (value.whole or 0) > 1:
            words += ["--scope", f"{scope}={value.whole}:{value.whole}"]
    return words


def _probed(machine: Machine, words: list[str], told: Mapping[str, str]) -> InspectionResult[ProbeResult]:
    printed = machine.program("unhang.check.probe", words, _PROBE_LIMIT_S, told)
    if printed.found is None:
        return InspectionResult(because=printed.because or say("there is no stored probe"), how=HOW)
    answer = find_answer(printed.found.text)
    if answer is None:
        last = (printed.found.text.strip().splitlines() or [""])[-1]
        return InspectionResult(because=say("the probe ended without a result: {last}", last=last[-200:]), how=HOW)
    if answer.probed is None:
        return InspectionResult(because=say("{reason}", reason=answer.refused), how=HOW)
    return InspectionResult(answer.probed)
