"""The command that is planned and the configuration files it names: DeepSpeed JSON, accelerate and LLaMA-Factory YAML,
torchtitan TOML, arguments of Trainer and TRL. Files are read, nothing is run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import yaml

from unhang.checks.command_words import taken_apart
from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.facts.preflight.launch import ConfigFile, Configuration, Followed, Launch
from unhang.facts.preflight.situation import Look
from unhang.findings import Text, say

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = "configuration"
LIMIT_S = 5.0
NEEDS = ("timers",)
ENDINGS = (".json", ".yaml", ".yml", ".toml")
MOST_FILES = 20
# Keys by which a file is known, most telling first.
_KINDS = (
    ("deepspeed", {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}),
    ("accelerate", {"distributed_type", "num_machines", "compute_environment"}),
    ("llamafactory", {"stage", "finetuning_type", "template", "cutoff_len"}),
    ("torchtitan", {"parallelism", "comm", "activation_checkpoint", "job"}),
    ("trainer", {"per_device_train_batch_size", "num_train_epochs", "output_dir", "num_generations"}),
)


def look(machine: Machine, plan: Plan) -> Iterator[tuple[type, Look[Any]]]:
    """The command taken apart, and every configuration file it leads to."""
    launch = taken_apart(plan.command)
    yield Launch, Look(replace(_counted(launch, machine), followed=plan.followed or Followed()))
    yield Configuration, Look(*configuration_of(machine, launch))


def _counted(launch: Launch, machine: Machine) -> Launch:
    """``--nproc_per_node gpu``: as many processes as cards, where the job says which it sees."""
    asked = launch.options.get("nproc_per_node") or launch.options.get("nproc", "")
    cards = machine.environment.get("CUDA_VISIBLE_DEVICES", "")
    if launch.processes is not None or asked not in ("gpu", "auto") or not cards:
        return launch
    return replace(launch, processes=len([card for card in cards.split(",") if card.strip()]))


def configuration_of(machine: Machine, launch: Launch) -> tuple[Configuration, Text | None]:
    """Files the command names, files those name, and why one of them could not be read."""
    files: list[ConfigFile] = []
    because: Text | None = None
    words = (*launch.words, *launch.arguments.values(), *launch.options.values())
    waiting = [word for word in words if _is_config(word)]
    seen: set[str] = set()
    while waiting and len(seen) < MOST_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        tree, trouble = _tree(machine, path)
        because = because or trouble
        if tree is not None:
            files.append(ConfigFile(path, _kind(tree), tree))
            waiting += [value for value in tree.values() if isinstance(value, str) and _is_config(value)]
    return Configuration(tuple(files)), because


def _is_config(word: str) -> bool:
    return word.lower().endswith(ENDINGS)


def _tree(machine: Machine, path: str) -> tuple[Mapping[str, Any] | None, Text | None]:
    look = machine.read_named(path)
    if look.found is None:
        return None, look.because or say("{path} is not there", path=path)
    try:
        tree = _parse(look.found, path)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        return None, say("{path} cannot be read: {reason}", path=path, reason=str(error).split("\n")[0])
    return (tree, None) if isinstance(tree, Mapping) else (None, None)


def _parse(text: str, path: str) -> Any:
    if path.lower().endswith(".json"):
        return json.loads(text)
    return tomllib.loads(text) if path.lower().endswith(".toml") else yaml.safe_load(text)


def _kind(tree: Mapping[str, Any]) -> str:
    return next((kind for kind, keys in _KINDS if keys & {str(key) for key in tree}), "")
