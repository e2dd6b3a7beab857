"""The command that is planned and the configuration files it names: DeepSpeed JSON, accelerate and LLaMA-Factory YAML,
torchtitan TOML, arguments of Trainer and TRL. Files are read, nothing is run.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tomli
import yaml

from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.job_environment import comparable_variables
from unhang.program.launch.launch import ConfigFile, Configuration, FollowedLaunch, Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings.hydra_files import HYDRA_OPTIONS, HydraComposer, hydra_main, interpolate, scalar
from unhang.sentences import Text, say

NAME = "configuration"
LIMIT_S = 5.0
NEEDS = ("timers", "program")
ENDINGS = (".json", ".yaml", ".yml", ".toml")
MAX_FILES = 20
_NOTHING = object()
_HOST = re.compile(r"\s*[^\s#]+\s+slots=(\d{1,4})\b")
# Keys by which a file is known, most telling first.
_KINDS = (
    ("deepspeed", {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}),
    ("accelerate", {"distributed_type", "num_machines", "compute_environment"}),
    ("llamafactory", {"stage", "finetuning_type", "template", "cutoff_len"}),
    ("torchtitan", {"parallelism", "comm", "activation_checkpoint", "job"}),
    ("trainer", {"per_device_train_batch_size", "num_train_epochs", "output_dir", "num_generations"}),
)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """The command taken apart, and every configuration file it leads to."""
    launch = parse_command(plan.command)
    configuration, because = configuration_of(machine, launch)
    yield (
        Launch,
        InspectionResult(
            replace(
                _counted(launch, machine, configuration), followed=_shareable_launch(plan.followed or FollowedLaunch())
            )
        ),
    )
    yield Configuration, InspectionResult(configuration, because)


def _shareable_launch(followed: FollowedLaunch) -> FollowedLaunch:
    """Of what scripts export only what every rank should have alike: a fact may be sent to other nodes."""
    known = comparable_variables({name: setting.value for name, setting in followed.environment.items()})
    return replace(followed, environment={name: followed.environment[name] for name in known})


def _counted(launch: Launch, machine: Machine, configuration: Configuration) -> Launch:
    """How many processes, where the command leaves it to the cards the job sees, accelerate's file or a host file."""
    if launch.launcher == "deepspeed":
        return _on_hosts(launch, machine)
    if launch.processes is not None:
        return launch
    if launch.launcher == "accelerate":
        for file in configuration.of("accelerate"):
            count, machines = (
                numbers.finite_number(file.get("num_processes")),
                numbers.finite_number(file.get("num_machines")),
            )
            if count:
                nodes = launch.nodes or int(machines or 1) or 1
                return replace(launch, processes=int(count) // nodes, nodes=nodes)
    asked = launch.options.get("nproc_per_node") or launch.options.get("nproc", "")
    cards = machine.environment.get("CUDA_VISIBLE_DEVICES", "")
    if asked not in ("gpu", "auto") or not cards:
        return launch
    return replace(launch, processes=len([card for card in cards.split(",") if card.strip()]))


def _on_hosts(launch: Launch, machine: Machine) -> Launch:
    """DeepSpeed's host file (``node1 slots=8``) says how many nodes and processes, unless the command does."""
    text = machine.read_named(launch.options.get("hostfile", "/job/hostfile")).found or ""
    slots = [int(found[1]) for line in text.splitlines() if (found := _HOST.match(line))]
    if not slots or {"include", "exclude"} & launch.options.keys():
        return launch
    processes = launch.processes if launch.processes is not None else slots[0]
    return replace(launch, processes=processes, nodes=launch.nodes or len(slots))


def configuration_of(machine: Machine, launch: Launch) -> tuple[Configuration, Text | None]:
    """Files the command names, files those name, Hydra's, and why one of them could not be read.

    What a word of the command sets counts before the file, and what refers to another value has that value.
    """
    files: list[ConfigFile] = []
    because: Text | None = None
    words = (*launch.words, *launch.arguments.values(), *launch.options.values())
    waiting = [word for word in words if _is_config(word)] + _default_of_accelerate(machine, launch)
    hydra, because = _of_hydra(machine, launch)
    files += [hydra] if hydra is not None else []
    seen: set[str] = set()
    while waiting and len(seen) < MAX_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        tree, trouble = _tree(machine, path)
        because = because or trouble
        if tree is not None:
            tree = _in_force(tree, _kind(tree), launch, machine)
            files.append(ConfigFile(path, _kind(tree), tree))
            waiting += [value for value in tree.values() if isinstance(value, str) and _is_config(value)]
    return Configuration(tuple(files)), because


def _in_force(tree: Mapping[str, Any], kind: str, launch: Launch, machine: Machine) -> Mapping[str, Any]:
    """With the words of the command, which every parser we know takes over the file; DeepSpeed has its file alone."""
    if kind == "deepspeed":
        return tree
    told = launch.options if kind == "accelerate" else launch.arguments
    for name, text in told.items():
        if ConfigFile("", kind, tree).get(name, _NOTHING) is not _NOTHING:
            tree = _with(tree, name.split("."), scalar(text))
    return interpolate(tree, machine.environment)


def _with(tree: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    inner = tree.get(path[0])
    if len(path) > 1 and isinstance(inner, Mapping):
        value = _with(inner, path[1:], value)
    return {**tree, path[0]: value}


def _default_of_accelerate(machine: Machine, launch: Launch) -> list[str]:
    """What ``accelerate config`` once wrote, where the command names no file."""
    if launch.launcher != "accelerate" or "config_file" in launch.options:
        return []
    told = machine.environment
    home = told.get("HF_HOME") or f"{told.get('XDG_CACHE_HOME') or told.get('HOME', '') + '/.cache'}/huggingface"
    paths = [f"{home}/accelerate/default_config.{ending}" for ending in ("yaml", "json")]
    return [path for path in paths if path.startswith("/") and machine.read(path).found is not None][:1]


def _of_hydra(machine: Machine, launch: Launch) -> tuple[ConfigFile | None, Text | None]:
    """The configuration that the script's ``@hydra.main`` puts together."""
    script = launch.program if launch.program.endswith(".py") else ""
    main = hydra_main(machine.read_named(script).found or "") if script else None
    told = launch.arguments
    name = told.get("config_name") or told.get("cn") or (main.name if main is not None else "")
    if main is None or not name:
        return None, None
    path = told.get("config_path") or told.get("cp") or main.path
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(script), path))
    words = [f"{key}={value}" for key, value in told.items() if key not in HYDRA_OPTIONS] + list(launch.words)
    composer = HydraComposer(folder, lambda p: _tree(machine, p)[0], lambda p: machine.read_named(p).found or "", words)
    tree = interpolate(composer.composed(name), machine.environment)
    missing = composer.missing[0] if composer.missing else ""
    because = say("{path} does not exist", path=f"{folder}/{missing}.yaml") if missing else None
    place = posixpath.join(folder, f"{name.removesuffix('.yaml')}.yaml")
    return (ConfigFile(place, _kind(tree), tree) if composer.files else None), because


def _is_config(word: str) -> bool:
    return word.lower().endswith(ENDINGS)


def _tree(machine: Machine, path: str) -> tuple[Mapping[str, Any] | None, Text | None]:
    look = machine.read_named(path)
    if look.found is None:
        return None, look.because or say("{path} does not exist", path=path)
    try:
        tree = _parse(look.found, path)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        return None, say("{path} cannot be read: {reason}", path=path, reason=str(error).split("\n")[0])
    return (tree, None) if isinstance(tree, Mapping) else (None, None)


def _parse(text: str, path: str) -> Any:
    if path.lower().endswith(".json"):
        return json.loads(text)
    return tomli.loads(text) if path.lower().endswith(".toml") else yaml.safe_load(text)


def _kind(tree: Mapping[str, Any]) -> str:
    return next((kind for kind, keys in _KINDS if keys & {str(key) for key in tree}), "")
