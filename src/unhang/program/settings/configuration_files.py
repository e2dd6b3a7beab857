"""The command that is planned and the configuration files it names: DeepSpeed JSON, accelerate and LLaMA-Factory YAML,
torchtitan TOML, arguments of Trainer and TRL. Files are read, nothing is run.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tomli
import yaml

from unhang.findings import Evidence, Source
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.knowledge.tables import rows_by
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.job_environment import comparable_variables
from unhang.program.launch.launch import ConfigFile, Configuration, FollowedLaunch, Launch, NamedFile
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings.hydra_files import HYDRA_OPTIONS, HydraComposer, hydra_main, interpolate, scalar
from unhang.program.settings.model_size import huggingface_home
from unhang.sentences import Text, say

NAME = "configuration"
LIMIT_S = 5.0
NEEDS = ("timers", "program", "versions", "devices")
ENDINGS = (".json", ".hjson", ".yaml", ".yml", ".toml")
_PATH = re.compile(r"(?:[\w.~-]*/)*[\w.-]+\.[A-Za-z]{2,8}")  # whatever it is called: libraries read by the role alone
MAX_FILES, MAX_DEPTH = 20, 3
_NOTHING = object()
_COMMAND = Source("command")
_NO_ROLE = "-"
"""Of what may be data, or an output: it is read where it is there, and not missed."""
_HOST = re.compile(r"\s*[^\s#]+\s+slots=(\d{1,4})\b")
_HJSON = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|#[^\n]*|/\*.*?\*/|([A-Za-z_]\w*)(?=\s*:)', re.DOTALL)
# Keys by which a file is known, most telling first.
_KINDS = (
    ("deepspeed", {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}),
    ("accelerate", {"distributed_type", "num_machines", "compute_environment"}),
    ("llamafactory", {"stage", "finetuning_type", "template", "cutoff_len"}),
    ("torchtitan", {"parallelism", "comm", "activation_checkpoint", "job"}),
    ("trainer", {"per_device_train_batch_size", "num_train_epochs", "output_dir", "num_generations"}),
)


@dataclass(frozen=True, slots=True)
class RoleRow:
    """Arguments, options and keys whose value is the path of a configuration file (``configuration_files.toml``)."""

    names: tuple[str, ...]
    missing: str
    broken: str = ""
    kind: str = ""
    likely: bool = False
    hjson: bool = False


def role_of(name: str) -> RoleRow | None:
    """The row of an argument, option or key; None where its value is no such file that we know."""
    return rows_by("names", "configuration_files.toml", "role", RoleRow).get(name)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """The command taken apart, and every configuration file it leads to."""
    launch = parse_command(plan.command)
    configuration, because = configuration_of(machine, launch)
    followed = _shareable_launch(plan.followed or FollowedLaunch())
    yield Launch, InspectionResult(replace(_counted(launch, machine, configuration), followed=followed))
    yield Configuration, InspectionResult(configuration, because)


def _shareable_launch(followed: FollowedLaunch) -> FollowedLaunch:
    """Of what scripts export only what every rank should have alike: a fact may be sent to other nodes."""
    known = comparable_variables({name: setting.value for name, setting in followed.environment.items()})
    return replace(followed, environment={name: followed.environment[name] for name in known})


def _counted(launch: Launch, machine: Machine, configuration: Configuration) -> Launch:
    """How many processes, where the command leaves it to the cards the job sees, accelerate's file or a host file."""
    if launch.launcher == "deepspeed":
        return _on_hosts(launch, machine)
    if launch.launcher == "accelerate":
        launch = _on_machines(launch, configuration)
    if launch.processes is not None:
        return launch
    asked = launch.options.get("nproc_per_node") or launch.options.get("nproc", "")
    cards = machine.environment.get("CUDA_VISIBLE_DEVICES", "")
    if asked not in ("gpu", "auto") or not cards:
        return launch
    return replace(launch, processes=len([card for card in cards.split(",") if card.strip()]))


def _on_machines(launch: Launch, configuration: Configuration) -> Launch:
    """accelerate: ``num_machines`` and ``num_processes`` (of all machines) of its file, else one machine."""
    files = configuration.of("accelerate")
    unknown = (not launch.nodes and "num_machines" in launch.options) or (not files and "config_file" in launch.options)
    if unknown:
        return launch
    told = [numbers.finite_number(file.get(name)) for name in ("num_processes", "num_machines") for file in files[:1]]
    count, machines = told or (None, None)
    nodes = launch.nodes or int(machines or 0) or (None if launch.outer else 1)
    total = int(count or 0) if launch.processes is None else launch.processes * (launch.nodes or 1)
    return replace(launch, processes=total // (nodes or 1) or None, nodes=nodes)


def _on_hosts(launch: Launch, machine: Machine) -> Launch:
    """DeepSpeed's host file (``node1 slots=8``) says how many nodes and processes, unless the command does; without one
    it starts on this node alone."""
    text = machine.read_named(launch.options.get("hostfile", "/job/hostfile")).found or ""
    slots = [int(found[1]) for line in text.splitlines() if (found := _HOST.match(line))]
    if "include" in launch.options:
        hosts = [part.partition(":")[2] for part in launch.options["include"].split("@")]
        cards = len(hosts[0].split(",")) if hosts[0] else None
        return replace(launch, processes=launch.processes or cards, nodes=len(hosts))
    if not slots or "exclude" in launch.options:
        return replace(launch, nodes=launch.nodes or (None if slots or "num_nodes" in launch.options else 1))
    processes = launch.processes if launch.processes is not None else slots[0]
    return replace(launch, processes=processes, nodes=launch.nodes or len(slots))


def configuration_of(machine: Machine, launch: Launch) -> tuple[Configuration, Text | None]:
    """Files the command names, files those name, Hydra's, and why one of them could not be read.

    What a word of the command sets counts before the file, and what refers to another value has that value.
    """
    hydra, absent = _of_hydra(machine, launch)
    found = read_named_files(machine, launch, _named_in(machine, launch))
    files, unread = (*([hydra] if hydra is not None else []), *found.files), (*absent, *found.unread)
    return Configuration(files, unread), next((one.because for one in unread), None)


def read_named_files(machine: Machine, launch: Launch, named: Iterable[NamedFile]) -> Configuration:
    """The files ``named``, and those that they name in turn."""
    files: list[ConfigFile] = []
    unread: list[NamedFile] = []
    waiting, seen = list(named), set[str]()
    while waiting and len(seen) < MAX_FILES:
        one = waiting.pop(0)
        if one.path in seen:
            continue
        seen.add(one.path)
        inline = _inline(one.role, one.path)
        one = replace(one, path=f"--{one.role}") if inline else one
        tree = _tree(machine, one, inline)
        if isinstance(tree, NamedFile):
            unread.append(tree)
        elif tree is not None:
            row = role_of(one.role)
            told = row.kind if row is not None else ""
            kind = told or _kind(tree)
            tree = _in_force(tree, kind, launch, machine)
            files.append(ConfigFile(one.path, kind, tree, not told))
            waiting += _named_inside(tree, one.path)
    return Configuration(tuple(files), tuple(unread))


def _named_in(machine: Machine, launch: Launch) -> Iterator[NamedFile]:
    tags = (launch.program.removeprefix("-m ").partition(".")[0], launch.launcher)
    given = [("", _place_of(machine, launch, word), word) for word in launch.words]
    given += [(name, path, f"--{name} {path}") for name, path in launch.arguments.items()]
    given += [(f"{launch.launcher}.{name}", path, f"--{name} {path}") for name, path in launch.options.items()]
    for name, path, text in given:
        role = next((one for tag in tags if role_of(one := f"{tag}.{name}") is not None), name)
        is_file = (row := role_of(role)) is not None and row.kind and _PATH.fullmatch(path)
        if is_file or _is_config(path) or _inline(role, path):
            yield NamedFile(role if role or not path.endswith(".json") else _NO_ROLE, path, Evidence(_COMMAND, text))
    default = _default_of_accelerate(machine, launch)
    yield from (NamedFile("accelerate.config_file", path, Evidence(Source(path), path)) for path in default)


def _place_of(machine: Machine, launch: Launch, word: str) -> str:
    """``configs/small.yml`` for ``-d configs small.yml``: where the word leads from a folder that the command names."""
    folders = ("", *launch.arguments.values(), *launch.words) if _is_config(word) else ()
    paths = (posixpath.join(folder, word) for folder in folders)
    return next((path for path in paths if machine.read_named(path).found is not None), word)


def _named_inside(tree: Mapping[str, Any], path: str, depth: int = 0) -> Iterator[NamedFile]:
    """A file at the top; deeper, only one whose key says what it is."""
    for key, value in tree.items():
        row = role_of(str(key))
        role = str(key) if row is not None and row.kind else _NO_ROLE
        if isinstance(value, str) and _is_config(value) and (not depth or role != _NO_ROLE):
            yield NamedFile(role, value, Evidence(Source(path), f"{key}: {value}"))
        elif isinstance(value, Mapping) and depth < MAX_DEPTH:
            yield from _named_inside(value, path, depth + 1)


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
    home = huggingface_home(machine.environment)
    paths = [f"{home}/accelerate/default_config.{ending}" for ending in ("yaml", "json")]
    return [path for path in paths if path.startswith("/") and machine.read(path).found is not None][:1]


def _of_hydra(machine: Machine, launch: Launch) -> tuple[ConfigFile | None, list[NamedFile]]:
    """The configuration that the script's ``@hydra.main`` puts together, and a part of it that is not there."""
    script = launch.program if launch.program.endswith(".py") else ""
    main = hydra_main(machine.read_named(script).found or "") if script else None
    told = launch.arguments
    name = told.get("config_name") or told.get("cn") or (main.name if main is not None else "")
    if main is None or not name:
        return None, []
    path = told.get("config_path") or told.get("cp") or main.path
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(script), path))
    words = [f"{key}={value}" for key, value in told.items() if key not in HYDRA_OPTIONS] + list(launch.words)

    def read(part: str) -> Mapping[str, Any] | None:
        tree = _tree(machine, NamedFile(_NO_ROLE, part, Evidence(_COMMAND, name)))
        return None if isinstance(tree, NamedFile) else tree

    composer = HydraComposer(folder, read, lambda part: machine.read_named(part).found or "", words)
    tree = interpolate(composer.composed(name), machine.environment)
    place = posixpath.join(folder, f"{name.removesuffix('.yaml')}.yaml")
    parts = [f"{folder}/{part}.yaml" for part in composer.missing[:1]]
    absent = [
        NamedFile("hydra", part, Evidence(_COMMAND, name), say("{path} does not exist", path=part)) for part in parts
    ]
    return (ConfigFile(place, _kind(tree), tree) if composer.files else None), absent


def _is_config(word: str) -> bool:
    return word.lower().endswith(ENDINGS) and "://" not in word


def _inline(role: str, word: str) -> str:
    """The settings that stand where the path of a file may: a table, also one in base64; empty otherwise."""
    row = role_of(role)
    try:
        text = word if word.startswith("{") else base64.urlsafe_b64decode(word).decode()
    except ValueError:
        return ""
    return text if row is not None and row.kind and text.lstrip().startswith("{") else ""


def _tree(machine: Machine, named: NamedFile, inline: str = "") -> Mapping[str, Any] | NamedFile | None:
    """What stands in a file, or why that is not known; None for a list and the like, which may be data."""
    path, row = named.path, role_of(named.role)
    if "$" in path or "{" in path or path.startswith("~"):
        return replace(named, because=say("its path is known only at run time"))
    look = InspectionResult(inline) if inline else machine.read_named(path)
    if look.because is not None:
        return replace(named, because=look.because)
    if look.found is None:
        return replace(named, because=say("{path} does not exist", path=path), missing=True)
    try:
        lenient = path.lower().endswith(".hjson") or (row is not None and row.hjson)
        tree = _lenient(look.found) if lenient else json.loads(inline) if inline else _parse(look.found, path)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        because = say("{path} cannot be read: {reason}", path=path, reason=_reason(error))
        return replace(named, because=because, broken="$" not in look.found)  # one that a script or template fills in
    if isinstance(tree, Mapping) or row is None:
        return tree if isinstance(tree, Mapping) else None
    return replace(named, because=say("{path} holds no settings by name", path=path), broken=True)


def _reason(error: Exception) -> str:
    """With line and column, where the parser knows them."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error).split("\n")[0]
    return f"{getattr(error, 'problem', '')}: line {mark.line + 1} column {mark.column + 1}"


def _parse(text: str, path: str) -> Any:
    if path.lower().endswith(".json"):
        return json.loads(text)
    return tomli.loads(text) if path.lower().endswith(".toml") else yaml.safe_load(text)


def _lenient(text: str) -> Any:
    """Hjson as far as configurations use it: comments and keys without quotes, commas too many and too few."""
    text = _HJSON.sub(lambda one: one[1] or (f'"{one[2]}"' if one[2] else ""), text)
    text = re.sub(r'(?<=[\w"}\]])\s*\n(?=\s*["\w{\[])', ",\n", text)
    return json.loads(re.sub(r",(?=\s*[}\]])", "", text))


def _kind(tree: Mapping[str, Any]) -> str:
    return next((kind for kind, keys in _KINDS if keys & {str(key) for key in tree}), "")
