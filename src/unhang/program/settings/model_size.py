"""How large the model of the planned job is: counted from its ``config.json`` and the index of its weights, as far as
they are on this machine. Nothing is downloaded."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unhang.findings import Evidence
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.program_source import ProgramSource
from unhang.program.settings.job_values import job_values, memory_table
from unhang.sentences import say

_INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_MAX_LAYERS = 1000
"""Layers of a model of which only the size is known: what is gathered layer by layer then counts for little."""
_ALL_MODULES = {"all", "all-linear", "True"}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Numbers of parameters. ``text``: of these, without what sees or hears; ``embeddings``: in tables of tokens;
    ``modules``: (inputs, outputs, how many a layer) of linear modules by name; ``quantized``: as it is stored;
    ``named``: where the job names the model. ``path``: the file that was read; empty where this is the least that it
    can be: its name alone tells the size, or only one of its parts could be counted."""

    path: str
    named: Evidence
    parameters: int
    text: int
    embeddings: int
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    modules: Mapping[str, tuple[int, int, int]]
    quantized: bool

    def trained_parameters(self, rank: int, targets: tuple[str, ...]) -> int:
        """Of LoRA's matrices beside the modules ``targets`` (each one for ``all``); the whole text part for rank 0."""
        if not rank:
            return self.text
        return self.layers * sum(rank * (a + b) * count for a, b, count in self.chosen(targets))

    def chosen(self, targets: tuple[str, ...]) -> list[tuple[int, int, int]]:
        """Of ``modules`` those that ``targets`` name."""
        return [one for name, one in self.modules.items() if name in targets or not _ALL_MODULES.isdisjoint(targets)]


def find_model_size(machine: Machine, *facts: Launch | Configuration | ProgramSource) -> InspectionResult[ModelSize]:
    """The model that the source, the command or files name; nothing where they name none."""
    results: dict[type, InspectionResult[Any]] = {type(one): InspectionResult(one) for one in facts}
    named = job_values(NodeInspection(results=results), *memory_table()["names"]["model"])
    told = next((value for value in named if isinstance(value.value, str)), None)
    if told is None:
        return InspectionResult()
    name = str(told.value)
    fetch = f"hf download {shlex.quote(name)}" if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) else ""
    for folder in _folders(machine, name):
        tree = _json(machine, f"{folder}/config.json")
        if tree is not None:
            size = _counted(tree, _stored_parameters(machine, folder, tree), folder, told.evidence)
            because = say("unhang cannot count the parameters of {path}", path=f"{folder}/config.json")
            how = fetch and f"{fetch} {_INDICES[0]}"
            return InspectionResult(size) if size is not None and size.path else InspectionResult(size, because, how)
    if name.startswith(("/", ".", "~")):
        return InspectionResult(because=say("{path} does not exist", path=f"{name}/config.json"))
    because = say("{name} is not in the local model cache, and unhang downloads nothing", name=name)
    return InspectionResult(_by_name(name, told.evidence), because, fetch and f"{fetch} config.json")


def _by_name(name: str, named: Evidence) -> ModelSize | None:
    """What ``Mistral-7B-v0.1`` says of itself, rounded down; of its layers nothing is known."""
    billions = re.search(r"(?<![\w.])(\d+x)?(\d+(?:\.\d+)?)[bB](?![a-zA-Z0-9])", name.rpartition("/")[2])
    if billions is None:
        return None
    count = int(float(billions[2]) * 0.9e9)
    return ModelSize(
        "", named, count, count, 0, _MAX_LAYERS, 0, 0, 0, {}, bool(re.search(r"(?i)awq|gptq|int[48]|[48]bit", name))
    )


def huggingface_home(told: Mapping[str, str]) -> str:
    """The folder of caches by these variables; relative where there is no home."""
    return told.get("HF_HOME") or f"{told.get('XDG_CACHE_HOME') or told.get('HOME', '') + '/.cache'}/huggingface"


def _folders(machine: Machine, name: str) -> Iterator[str]:
    """Where the files of the model may be: the path itself, the caches of Hugging Face and ModelScope."""
    told = machine.environment
    home = told.get("HOME", "~")
    yield posixpath.join(home, name[2:]) if name.startswith("~/") else name.rstrip("/")
    hub = told.get("HF_HUB_CACHE") or told.get("HUGGINGFACE_HUB_CACHE") or f"{huggingface_home(told)}/hub"
    kept = f"{hub}/models--{name.replace('/', '--')}"
    main = machine.text(f"{kept}/refs/main")
    for revision in [main] if main else machine.entries(f"{kept}/snapshots").found or ():
        yield f"{kept}/snapshots/{revision}"
    yield f"{told.get('MODELSCOPE_CACHE') or home + '/.cache/modelscope/hub'}/models/{name.replace('.', '___')}"


def _json(machine: Machine, path: str) -> Mapping[str, Any] | None:
    try:
        tree = json.loads(machine.read_named(path).found or "")
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, Mapping) else None


def _stored_parameters(machine: Machine, folder: str, tree: Mapping[str, Any]) -> int | None:
    """By the index of the weights; None where there is none, or its bytes are those of a quantized model."""
    element = memory_table()["element_bytes"].get(str(tree.get("dtype") or tree.get("torch_dtype")))
    indices = (_json(machine, f"{folder}/{name}") or {} for name in _INDICES)
    told = [index["metadata"] for index in indices if isinstance(index.get("metadata"), Mapping)]
    size = numbers.finite_number(told[0].get("total_size")) if told else None
    return int(size / element) if size and element and "quantization_config" not in tree else None


def _counted(tree: Mapping[str, Any], stored: int | None, folder: str, named: Evidence) -> ModelSize | None:
    """By the shapes of its modules; None where its architecture is not known, or it has parts beside the text."""
    table = memory_table()
    inner: Mapping[str, Any] = next(
        (tree[name] for name in table["text_parts"] if isinstance(tree.get(name), Mapping)), {}
    )
    text = {**tree, **inner}

    def whole(key: str) -> int:
        told = (numbers.finite_number(text.get(name)) for name in table["names"][key])
        return next((int(number) for number in told if number is not None and number > 0), 0)

    hidden, layers, heads, vocabulary = (whole(key) for key in ("hidden", "layers", "heads", "vocabulary"))
    kinds = {tree.get("model_type"), text.get("model_type")}
    gated, plain, learned = (not kinds.isdisjoint(table["families"][key]) for key in ("gated", "plain", "learned"))
    beside = {"vision_config", "audio_config"} & tree.keys()
    if not (hidden and layers and heads and vocabulary and (gated or plain or stored)):
        return None
    head, experts, width = whole("head") or hidden // heads, whole("experts"), whole("width") or 4 * hidden
    queries, groups = heads * head, (whole("groups") or heads) * head
    each, count = (whole("expert_width") or width, experts) if experts else (width, 1)
    modules = {"q_proj": (hidden, queries, 1), "k_proj": (hidden, groups, 1), "v_proj": (hidden, groups, 1)}
    modules |= {"o_proj": (queries, hidden, 1), "up_proj": (hidden, each, count), "down_proj": (each, hidden, count)}
    modules |= {} if plain else {"gate_proj": (hidden, each, count)}
    layer = hidden * (experts + 3 * whole("shared_width")) + sum(a * b * many for a, b, many in modules.values())
    embeddings = vocabulary * hidden * (1 if text.get("tie_word_embeddings", True) else 2)
    counted = layers * layer + embeddings + (hidden * whole("positions") if learned else 0)
    total, path = stored or counted, "" if beside and not stored else f"{folder}/config.json"
    own, quantized = min(counted, total) if beside else total, "quantization_config" in tree
    return ModelSize(path, named, total, own, embeddings, layers, hidden, heads, vocabulary, modules, quantized)
