"""How much memory a rank needs on its card, and a checkpoint on the disk: published formulas, once read in the job's
favour and once against it. ``knowledge/training_memory.toml`` holds the numbers and names the sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from unhang.check.network.network import nodes_of
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.launch import Launch
from unhang.program.settings.job_values import all_files, feature, memory_table, setting, whole_setting
from unhang.program.settings.model_size import ModelSize

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """One reading of how the job trains. Bytes: ``base`` of a parameter that is not trained; ``weights``, ``gradients``
    and ``states`` of one that is; ``logits`` of each. ``adapter``: LoRA's rank, 0 where everything is trained; ``on``:
    features; ``at``: which end of the ranges holds, 0 or 1; ``engine``: what vLLM takes beside it, of the card."""

    ranks: int
    stage: int
    adapter: int
    targets: tuple[str, ...]
    base: float
    weights: float
    gradients: float
    states: float
    batch: int
    tokens: int
    logits: float
    at: int
    engine: float
    on: frozenset[str]


Setups = tuple[TrainingSetup, TrainingSetup]
"""Where nothing says how the job trains: what needs least, and what needs most."""


def training_setups(here: NodeInspection, size: ModelSize, cards: int = 1) -> Setups:
    """How the job trains; ``cards``: those of this node that it would use. Embeddings are never quantized."""
    return _setup(here, size, cards, 0), _setup(here, size, cards, 1)


def changed(setups: Setups, on: frozenset[str] = frozenset(), **parts: Any) -> Setups:
    """The same with further features ``on`` and other ``parts``."""
    least, most = (replace(one, on=one.on | on, **parts) for one in setups)
    return least, most


def _setup(here: NodeInspection, size: ModelSize, cards: int, at: int) -> TrainingSetup:
    table, launch = memory_table(), here.found(Launch) or Launch()
    names, known = table["names"], {name: feature(here, name) for name in table["feature"]}
    assumed = {name for name in known if name not in table["certain"] and at == (name in table["costly"])}
    on = {name for name, state in known.items() if (name in assumed if state is None else state)}
    ranks = (launch.processes or cards) * (nodes_of(here) or launch.nodes or 1)
    stage, zero = _sharding(here, sharded="sharded" in on)
    element = 2.0 if "half" in on and (zero or at == 0) else 4.0
    told, targets, share = (setting(here, *names[name]) for name in ("optimizer", "targets", "engine_share"))
    optimizer = str(told.value).lower() if told is not None else "" if "light_optimizer" in on else "adam"
    held = 2.0 if {"half", "half_base"} <= on else element
    moments = next(row["bytes"][at] for row in table["optimizer"] if any(word in optimizer for word in row["words"]))
    longest = max(whole_setting(here, name) or 0 for name in names["tokens"]) or table["tokens"][1]
    return TrainingSetup(
        ranks=ranks,
        stage=stage,
        adapter=(whole_setting(here, *names["rank"]) or table["rank"][at]) if "adapter" in on else 0,
        targets=tuple(table["targets"][at] if targets is None else re.findall(r"[\w-]+", str(targets.value))),
        base=0.5 if "four_bit" in on or (size.quantized and at == 0) else 1.0 if "eight_bit" in on else held,
        weights=element,
        gradients=4.0 if at else element,
        states=moments + 4.0 * ("half" in on) if zero else moments * element / 4,
        batch=whole_setting(here, *names["batch"]) or table["batch"][at],
        tokens=longest if at or known["packed"] else min(longest, table["tokens"][0]),
        logits=0 if "fused_loss" in on else table["logits"][at],
        at=at,
        engine=((share and share.number) or table["engine_share"]) if "engine" in on else 0.0,
        on=frozenset(on),
    )


def _sharding(here: NodeInspection, *, sharded: bool) -> tuple[int, bool]:
    """The stage of ZeRO, or the one that shards as much as FSDP does here; whether DeepSpeed does it."""
    table, of_zero = memory_table(), all_files(here, "deepspeed")
    told = [str(one.value).upper() for name in table["names"]["fsdp"] if (one := setting(here, name)) is not None]
    stage, words = whole_setting(here, *table["names"]["stage"]), re.findall(r"\w+", " ".join(told))
    by_launcher = (here.found(Launch) or Launch()).launcher == "deepspeed" or "DEEPSPEED" in words
    if stage is not None or of_zero or by_launcher or setting(here, "deepspeed", "use_deepspeed") is not None:
        return (3 if sharded and not of_zero else 0) if stage is None else stage, True
    return next((table["sharding"][word] for word in words if word in table["sharding"]), 3 if sharded else 0), False


def memory_needed(size: ModelSize, setup: TrainingSetup) -> dict[str, float]:
    """GiB on the card at the peak of a step, by what they are for."""
    trained = size.trained_parameters(setup.adapter, setup.targets)
    frozen = (size.parameters - trained) * setup.base
    if setup.adapter:
        frozen = size.parameters * setup.base + size.embeddings * max(0.0, 2.0 - setup.base)
    of_optimizer, of_gradients, of_weights = (setup.ranks if setup.stage >= stage else 1 for stage in (1, 2, 3))
    table, tokens, on, at = memory_table(), setup.batch * setup.tokens, setup.on, setup.at
    adapted = table["adapted"][at] * sum(inputs for inputs, _, _ in size.chosen(setup.targets)) * (setup.adapter > 0)
    wide, scores = 1 if "half" in on else 2, ("eager" in on) * table["scores"] * size.heads * setup.tokens
    layer = tokens * (table["layer"] * size.hidden + scores + adapted) * wide
    inputs = max(2 * wide, table["layer_input"][at]) * tokens * size.hidden * size.layers
    kept = layer + inputs if "checkpointing" in on else layer * size.layers
    largest = max([size.vocabulary * size.hidden, *(a * b for a, b, _ in size.modules.values())])
    gathered = largest * setup.weights if setup.stage == 3 else 0.0
    fetched = table["gathered"][at] * size.parameters / size.layers if setup.stage == 3 else 0
    weights_stay = setup.stage < 3 or "offload_weights" not in on
    optimizer_stays = setup.stage < 1 or "offload_optimizer" not in on
    buckets = 2 if at and setup.stage == 0 and setup.ranks > 1 else 1  # DDP reduces in buckets of its own
    frozen += size.parameters * setup.weights * ("reference" in on and not setup.adapter)
    needed = {
        "weights": (weights_stay * (trained * setup.weights + frozen) / of_weights + gathered) / GIB,
        "gradients": optimizer_stays * trained * setup.gradients * buckets / of_gradients / GIB,
        "optimizer": optimizer_stays * trained * setup.states / of_optimizer / GIB,
        "activations": (kept + tokens * size.vocabulary * setup.logits) / GIB,
        "context": table["context_gib"][at],
    }
    needed["passing"] = (fetched * setup.base + largest * table["unpacked"][at] * (setup.base < 2)) / GIB
    needed["passing"] += sum(needed.values()) * (table["reserved"][at] - 1)
    needed["context"] += setup.engine
    return needed


def checkpoint_bytes(here: NodeInspection, *, states: bool = True) -> tuple[float, float] | None:
    """What a save writes, at least and at most (without ``states``: what rank 0 writes alone); None: not known."""
    size = here.found(ModelSize)
    if size is None or not size.path:
        return None
    sizes = []
    for one in training_setups(here, size):
        each = one.weights + (one.states if states and "weights_only" not in one.on else 0.0)
        sizes.append(size.trained_parameters(one.adapter, one.targets) * each)
    return sizes[0], sizes[1]
