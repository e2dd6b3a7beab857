"""Every timer that could end the job: set in the command, its files, the environment or the program; or default.

Defaults and who makes the first group: ``knowledge/timeouts.toml``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from unhang.check.environment.environment import Timer, Timers
from unhang.findings import Evidence, Source
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.knowledge.job.versions import version_numbers
from unhang.program.collect_program import LIMIT_S as READING_LIMIT_S
from unhang.program.collect_program import read_program_source
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProcessGroupTimeout
from unhang.program.settings.configuration_files import configuration_of
from unhang.program.settings.job_values import job_values
from unhang.program.settings.process_group_timeouts import (
    GROUP_CALLS,
    NCCL_DEFAULT_S,
    OTHER_DEFAULT_S,
    TRAINER_ARGUMENT,
)
from unhang.sentences import Text, say

NAME = "timers"
LIMIT_S = READING_LIMIT_S
"""It reads the program, unless another check has done so."""
NEEDS = ("environment", "versions", "configuration")
_SLURM_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
TRAINER_DEFAULT_S, HEARTBEAT_DEFAULT_S = 1800.0, 480.0
# Keys of arguments and files: kind of timer, seconds in one of its units.
_KEYS: Mapping[str, tuple[str, float]] = {
    "ddp_timeout": ("collective", 1),
    "nccl_timeout": ("collective", 1),
    "distributed_timeout_minutes": ("collective", 60),
    "distributed_timeout_seconds_after_init": ("later steps", 1),
    "comm.init_timeout_seconds": ("first steps", 1),
    "comm.train_timeout_seconds": ("later steps", 1),
}
# A group the program makes itself, and not only where there is none: torch makes no second one, so the Trainer, which
# takes a group that is there (accelerate/state.py, 0.26 - 1.15), comes later.
_MAKE_IT_THEMSELVES = ("init_process_group", "init_distributed")
_VARIABLES: Mapping[str, tuple[str, float]] = {
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": ("heartbeat", 1),
    "DEEPSPEED_TIMEOUT": ("collective", 60),
    "AXOLOTL_NCCL_TIMEOUT": ("collective", 1),
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ("shutdown", 1),
}


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Every limit of the job's waits: of the command, its files, the environment, the program and defaults."""
    launch = parse_command(plan.command)
    configuration, _ = configuration_of(machine, launch)
    timers = [*_of_settings(launch, configuration), *_of_environment(machine, plan)]
    program = _of_program(machine, plan, launch)
    trainer = program.names_trainer and _trainer(launch, configuration)
    ignored = [timer for timer in timers if timer.name == "DEEPSPEED_TIMEOUT" and trainer]
    if program.makes_first:
        ignored += [timer for timer in (*timers, *program.timers) if timer.name == TRAINER_ARGUMENT]
    timers = [timer for timer in (*timers, *program.timers) if timer not in ignored]
    timers += _defaults(timers, configuration, _group_default_s(machine, plan), trainer=trainer)
    yield Timers, InspectionResult(Timers(tuple(timers), program.groups_without, tuple(ignored)), program.because)


def _of_settings(launch: Launch, configuration: Configuration) -> Iterator[Timer]:
    """Of the command, and of the files for what the command does not set."""
    here = NodeInspection(results={Launch: InspectionResult(launch), Configuration: InspectionResult(configuration)})
    for name, (kind, unit) in _KEYS.items():
        for value in islice(job_values(here, name), 1 if name in launch.arguments else None):
            seconds = _amount(value.value, unit)
            if seconds is not None:
                yield Timer(kind, seconds, name, value.evidence)


def _of_environment(machine: Machine, plan: PlannedJob) -> Iterator[Timer]:
    for name, (kind, unit) in _VARIABLES.items():
        seconds = _amount(machine.environment.get(name), unit)
        if seconds is not None:
            yield Timer(kind, seconds, name, Evidence(plan.set_at(name), f"{name}={machine.environment[name]}"))
    end = _amount(machine.environment.get("SLURM_JOB_END_TIME"), 1)
    if end is not None:
        text = f"SLURM_JOB_END_TIME={machine.environment['SLURM_JOB_END_TIME']}"
        yield Timer("scheduler", max(0.0, end - time.time()), "Slurm", Evidence(Source("environment"), text))

    limit, source = machine.environment.get("SBATCH_TIMELIMIT", ""), plan.set_at("SBATCH_TIMELIMIT")
    if end is None and source.path != "environment" and (seconds := slurm_seconds(limit)):  # else it is for sbatch
        yield Timer("scheduler", seconds, "Slurm", Evidence(source, f"--time={limit}"))


def slurm_seconds(told: str) -> float | None:
    """``90`` minutes, ``1:30:00``, ``2-12``: sbatch(1), ``--time``; 0: no limit; None for what is none of them."""
    found = _SLURM_TIME.fullmatch(told)
    if found is None:
        return None
    days, *parts = found.groups()
    told_parts = [int(part) for part in parts if part is not None]
    units = (3600, 60, 1) if days is not None or len(told_parts) == 3 else (60, 1)
    return int(days or 0) * 86400.0 + sum(part * unit for part, unit in zip(told_parts, units, strict=False))


@dataclass(frozen=True, slots=True)
class _Program:
    """What the program's own source says. ``makes_first``: it makes the first group, before any library does;
    ``names_trainer``: a class of that name, or what was read may not be all."""

    timers: tuple[Timer, ...] = ()
    groups_without: tuple[Evidence, ...] = ()
    makes_first: bool = False
    names_trainer: bool = True
    because: Text | None = None


def _of_program(machine: Machine, plan: PlannedJob, launch: Launch) -> _Program:
    """Of every file that the launch leads to, as it would run them."""
    result = read_program_source(machine, plan.command)
    if result.found is None:
        return _Program(because=result.because if launch.program.endswith(".py") else None)
    timers: list[Timer] = []
    without: list[Evidence] = []
    unknown: list[ProcessGroupTimeout] = []
    makes_first = False
    for one in result.found.limits:
        itself = one.call in _MAKE_IT_THEMSELVES and not one.guarded
        seconds = one.seconds if one.given or not itself else _default_s(one, machine, plan)
        makes_first |= itself and seconds is not None
        if one.given and one.seconds is None:
            unknown.append(one)
        if seconds is not None and one.call not in GROUP_CALLS:
            name = one.call if one.call == TRAINER_ARGUMENT else f"{one.call}(timeout=)"
            evidence = Evidence(one.source, one.line_text)
            timers.append(Timer("collective", seconds, name, evidence, default=not one.given))
        elif one.call in GROUP_CALLS and not one.given:
            without.append(Evidence(one.source, one.line_text))
    named = any("Trainer" in one.text or "TrainingArguments" in one.text for one in result.found.whole)
    return _Program(tuple(timers), tuple(without), makes_first, named or result.found.partly, _not_known(unknown))


def _default_s(one: ProcessGroupTimeout, machine: Machine, plan: PlannedJob) -> float:
    """Where a call gives no limit; DeepSpeed had half an hour up to 0.19.5."""
    release = version_numbers(plan.assume.get("deepspeed") or machine.installed("deepspeed") or "")
    if one.call == "init_distributed":
        return OTHER_DEFAULT_S if release is not None and release < (0, 19, 6) else NCCL_DEFAULT_S
    return max(one.default_s, _group_default_s(machine, plan))


def _not_known(unknown: Sequence[ProcessGroupTimeout]) -> Text | None:
    if not unknown:
        return None
    told = "; ".join(f"{one.call}(timeout={one.given}) ({one.source.path}:{one.source.line})" for one in unknown[:3])
    return say("the timeout is known only at run time: {calls}", calls=told)


def _group_default_s(machine: Machine, plan: PlannedJob) -> float:
    """Of the first group, over NCCL: releases of torch before 2.2 wait as long there as over Gloo."""
    release = version_numbers(plan.assume.get("torch") or machine.installed("torch") or "")
    return OTHER_DEFAULT_S if release is not None and release < (2, 2) else NCCL_DEFAULT_S


def _defaults(timers: list[Timer], configuration: Configuration, group_s: float, *, trainer: bool) -> Iterator[Timer]:
    kinds = {timer.kind for timer in timers}
    if not kinds & {"collective", "first steps"}:
        if trainer:
            yield Timer("collective", TRAINER_DEFAULT_S, "ddp_timeout")
        elif configuration.of("torchtitan"):
            yield Timer("first steps", 300.0, "comm.init_timeout_seconds")
        else:
            yield Timer("collective", group_s, "init_process_group(timeout=)")
    if configuration.of("torchtitan") and "later steps" not in kinds:
        yield Timer("later steps", 100.0, "comm.train_timeout_seconds")
    if "heartbeat" not in kinds:
        yield Timer("heartbeat", HEARTBEAT_DEFAULT_S, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")


def _trainer(launch: Launch, configuration: Configuration) -> bool:
    """The transformers Trainer makes the first group: its arguments or a file of LLaMA-Factory's."""
    arguments = {"per_device_train_batch_size", "ddp_timeout", "output_dir", "num_generations"} & set(launch.arguments)
    return bool(arguments or configuration.of("llamafactory") or configuration.of("trainer"))


def _amount(value: object, unit: float) -> float | None:
    """Seconds; None for what is no number. A duration of hours in words (``1h``) is not known anywhere we read."""
    number = numbers.finite_number(value)
    return number * unit if number is not None and number >= 0 else None
