"""What a rank needs on its card, before the start: a finding only where even the lower estimate does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.check.told_machine import Told, ask
from tests.program.settings.test_model_size import LLAMA_2_7B, QWEN_2_5_3B, QWEN_2_72B, write_model
from unhang.check.devices.memory_need import GIB, memory_needed, training_setups
from unhang.check.risks.storage import disk_space
from unhang.check.storage.storage import JobPath, Storage
from unhang.findings import Cause, Finding, Severity, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import CommandOutput, Machine
from unhang.program.launch.launch import ConfigFile, Configuration, Launch
from unhang.program.settings.model_size import ModelSize, find_model_size

TRAINER = "trainer = Trainer(model, args)\noptimizer.zero_grad()\ntrainer.train()\n"
STAGE_3 = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_batch_size": "auto"}
LLAMA_FACTORY = {"stage": "sft", "model_name_or_path": "model", "cutoff_len": 2048, "bf16": True, "num_train_epochs": 1}


def machine(folder: Path, cards: int, mib: int, used: int = 14) -> Told:
    rows = (
        f"{at}, GPU-{at}, NVIDIA X, 00000000:0{at}:00.0, 550.54.14, {mib}, {used}, 0, 16, 16, Default, [N/A], [N/A]"
        for at in range(cards)
    )
    told = Told(folder, {"nvidia-smi --query-gpu=index": CommandOutput("\n".join(rows), 0)})
    told.folder = "/"
    return told


def asked(folder: Path, command: str, cards: int, mib: int, used: int = 14) -> Verdict:
    return ask(machine(folder, cards, mib, used), *command.split(), only=("configuration",))


def of_memory(verdict: Verdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.cause is Cause.GPU_OOM]


def write_job(folder: Path, model: dict[str, Any], zero: dict[str, Any] | None = None, **settings: Any) -> None:
    write_model(folder / "model", model)
    (folder / "train.py").write_text(TRAINER)
    (folder / "ds.json").write_text(json.dumps(zero or {}))
    (folder / "job.yaml").write_text(json.dumps({**LLAMA_FACTORY, **settings}))


def test_72_billion_parameters_do_not_fit_into_two_cards_of_24_gb(tmp_path: Path) -> None:
    write_job(tmp_path, QWEN_2_72B, STAGE_3, finetuning_type="full", deepspeed="ds.json")

    (finding,) = of_memory(asked(tmp_path, "llamafactory-cli train job.yaml", 2, 24564))

    assert finding.severity is Severity.STOPS
    assert "but card 0 has only 24.0 GiB free" in str(finding.summary)
    assert [str(one.text) for one in finding.evidence] == ["model_name_or_path: model"]


def test_3_billion_parameters_with_adapters_fit_into_eight_cards_of_48_gb(tmp_path: Path) -> None:
    write_job(tmp_path, QWEN_2_5_3B, finetuning_type="lora", lora_rank=64, per_device_train_batch_size=2)

    verdict = asked(tmp_path, "llamafactory-cli train job.yaml", 8, 46068)

    assert of_memory(verdict) == []
    assert not any("memory" in str(gap.what) for gap in verdict.not_checked)
    assert any("estimate for 3.1 billion parameters" in str(one.what) for one in verdict.checked)


def test_what_others_hold_on_the_card_is_not_free(tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B, finetuning_type="lora")

    assert of_memory(asked(tmp_path, "llamafactory-cli train job.yaml", 2, 24564)) == []
    (finding,) = of_memory(asked(tmp_path, "llamafactory-cli train job.yaml", 2, 24564, used=18000))
    assert "only 6.4 GiB free" in str(finding.summary)


@pytest.mark.parametrize(
    ("source", "more", "found"),
    [
        (TRAINER, "", True),
        (f"from peft import get_peft_model\n{TRAINER}", "", False),
        (f"fully_shard(model)\n{TRAINER}", "", True),  # each of the two cards holds half of it
        (TRAINER, "--use_peft true", False),
        (TRAINER, "--use_peft true --bf16 false", False),  # a library may load the model in 16 bits all the same
        (TRAINER, "--optim sgd", True),
        (TRAINER, "--fsdp full_shard", True),
        ("print(model.generate())\n", "", False),  # it may train nothing
    ],
)
def test_what_the_source_may_switch_on_counts_for_the_job(source: str, more: str, found: bool, tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B)
    (tmp_path / "train.py").write_text(source)
    trains = "--bf16 true --learning_rate 1e-5" if "Trainer" in source else ""

    verdict = asked(
        tmp_path, f"torchrun --nproc-per-node 2 train.py --model_name_or_path model {trains} {more}", 2, 24564
    )

    assert bool(of_memory(verdict)) is found


def test_changes_are_those_that_make_it_fit_the_smallest_first(tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B)
    command = "torchrun --nproc-per-node 8 train.py --model_name_or_path model --bf16 true --learning_rate 1e-5 "
    command += "--per_device_train_batch_size 1 --max_seq_length 2048 --gradient_checkpointing true"

    (finding,) = of_memory(asked(tmp_path, command, 8, 24564))

    titles = [str(remedy.title).partition(" (")[0] for remedy in finding.remedies]
    assert titles == [
        "Shard the model over all ranks",
        "Keep parameters and optimizer in host memory",
        "Train LoRA adapters of rank 16 on a model in 4 bits",
    ]
    assert "needs about" in str(finding.remedies[0].change)


def test_where_no_change_is_enough_alone_they_are_taken_together(tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B)
    command = "torchrun --nproc-per-node 8 train.py --model_name_or_path model --bf16 true --learning_rate 1e-5 "

    (finding,) = of_memory(asked(tmp_path, f"{command} --max_seq_length 3072", 8, 24564))

    (remedy,) = finding.remedies
    named = ("gradient checkpointing", "one sample", "Shard the model", "host memory")
    assert [words in str(remedy.title) for words in named] == [True, True, True, False]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("torchrun --nproc-per-node 2 train.py --learning_rate 1e-5", "names the model"),
        ("torchrun --nproc-per-node 2 train.py --learning_rate 1e-5 --model_name_or_path a/b", "local model cache"),
        ("torchrun --nproc-per-node 2 train.py --model model --learning_rate 1 --tp_size 2", "tp_size splits"),
        ("torchrun --nnodes $N --nproc-per-node 2 train.py --model model --learning_rate 1", "number of nodes"),
        ("python -m vllm.entrypoints.openai.api_server --model model", "shows that it trains"),
    ],
)
def test_what_nothing_says_is_a_quiet_gap(command: str, reason: str, tmp_path: Path) -> None:
    write_job(tmp_path, QWEN_2_72B)

    verdict = asked(tmp_path, command, 2, 24564)

    assert of_memory(verdict) == []
    (gap,) = (gap for gap in verdict.not_checked if "fits into the memory" in str(gap.what))
    assert reason in str(gap.because)


def test_where_there_is_no_card_or_no_command_nothing_is_said(tmp_path: Path) -> None:
    write_job(tmp_path, QWEN_2_72B)

    for verdict in (asked(tmp_path, "llamafactory-cli train job.yaml", 0, 0), asked(tmp_path, "", 2, 24564)):
        assert not any("memory" in str(gap.what) for gap in verdict.not_checked)
        assert of_memory(verdict) == []


def situation(folder: Path, tree: dict[str, Any], *files: ConfigFile, processes: int = 8) -> NodeInspection:
    """A LLaMA-Factory job with these settings, whose model is in ``folder``."""
    here = Machine(environment={})
    here.folder = str(folder)
    launch = Launch("llamafactory", program="llamafactory-cli", processes=processes)
    configuration = Configuration((ConfigFile("job.yaml", "llamafactory", {**LLAMA_FACTORY, **tree}), *files))
    facts: dict[type, InspectionResult[Any]]
    facts = {Launch: InspectionResult(launch), Configuration: InspectionResult(configuration)}
    return NodeInspection("h", results={**facts, ModelSize: find_model_size(here, launch, configuration)})


@pytest.mark.parametrize("ranks", [1, 2, 8, 64])
def test_stage_3_is_what_deepspeed_s_own_estimate_says(ranks: int, tmp_path: Path) -> None:
    """``estimate_zero3_model_states_mem_needs``: 18 bytes a parameter over all ranks, 4 for the largest layer."""
    write_model(tmp_path / "model", LLAMA_2_7B)
    here = situation(
        tmp_path, {"finetuning_type": "full"}, ConfigFile("ds.json", "deepspeed", STAGE_3), processes=ranks
    )
    size = here.found(ModelSize)
    assert size is not None
    by_deepspeed = (18 * size.parameters / ranks + 4 * 32000 * 4096) / GIB

    least, most = (memory_needed(size, setup) for setup in training_setups(here, size, 8))

    low, high = (sum(one[name] for name in ("weights", "gradients", "optimizer")) for one in (least, most))
    assert low <= by_deepspeed
    assert high == pytest.approx(by_deepspeed, rel=0.25)


def test_the_lower_estimate_is_never_above_the_upper_one(tmp_path: Path) -> None:
    write_model(tmp_path / "model", QWEN_2_5_3B)
    for tree in ({}, {"finetuning_type": "full"}, {"finetuning_type": "lora", "packing": True}, {"optim": "sgd"}):
        here = situation(tmp_path, tree)
        size = here.found(ModelSize)
        assert size is not None
        low, high = (memory_needed(size, setup) for setup in training_setups(here, size, 8))
        assert all(low[name] <= high[name] for name in low)


@pytest.mark.parametrize(
    ("settings", "noted"),
    [
        ({"finetuning_type": "full"}, True),
        ({"finetuning_type": "full", "save_only_model": True}, False),
        ({"finetuning_type": "lora", "lora_rank": 64}, False),
    ],
)
def test_a_checkpoint_is_as_large_as_what_the_job_saves(settings: dict[str, Any], noted: bool, tmp_path: Path) -> None:
    write_model(tmp_path / "model", QWEN_2_5_3B)
    here = situation(tmp_path, settings)
    place = JobPath("/out", "checkpoints", exists=True, writable=True, size=1 << 50, free=12_000_000_000)

    (answer,) = disk_space(NodeInspection("h", results={**here.results, Storage: InspectionResult(Storage((place,)))}))

    assert isinstance(answer, Finding) is noted


def test_no_change_is_advised_that_the_job_has_made(tmp_path: Path) -> None:
    place = JobPath("/out", "checkpoints", exists=True, writable=True, size=1 << 50, free=1 << 20)
    settings = {"finetuning_type": "full", "save_only_model": True, "save_total_limit": 1}
    here = situation(tmp_path, settings)

    (answer,) = disk_space(NodeInspection("h", results={**here.results, Storage: InspectionResult(Storage((place,)))}))

    assert isinstance(answer, Finding)
    assert [str(remedy.title) for remedy in answer.remedies] == ["Free space, or write to a larger disk"]
