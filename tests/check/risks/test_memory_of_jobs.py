"""The memory estimate against what others measured, and for jobs of axolotl, of a script's own arguments, of TRL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.check.risks.test_memory import STAGE_3, TRAINER, asked, machine, of_memory, situation, write_job
from tests.check.told_machine import ask
from tests.program.settings.test_model_size import LLAMA_2_7B, QWEN_2_5_3B, write_model
from unhang.check.devices.memory_need import GIB, memory_needed, training_setups
from unhang.findings import Verdict
from unhang.program.launch.launch import ConfigFile
from unhang.program.settings.model_size import ModelSize

LLAMA_2_70B = {
    **LLAMA_2_7B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
}
QWEN_7B = {**LLAMA_2_7B, "model_type": "qwen2", "vocab_size": 151936}
CHECKPOINTED = {"bf16": True, "gradient_checkpointing": True, "finetuning_type": "lora", "lora_target": "all"}
PEFT = {**CHECKPOINTED, "lora_rank": 8, "packing": True, "cutoff_len": 2048}
QWEN = {**CHECKPOINTED, "lora_rank": 64, "packing": True, "per_device_train_batch_size": 1}
FSDP = ConfigFile("fsdp.yaml", "accelerate", {"distributed_type": "FSDP"})
OFFLOAD = ConfigFile(
    "fsdp.yaml", "accelerate", {"distributed_type": "FSDP", "fsdp_config": {"fsdp_offload_params": True}}
)
ZERO_3 = ConfigFile("ds.json", "deepspeed", STAGE_3)


def estimate(folder: Path, model: dict[str, Any], tree: dict[str, Any], ranks: int, *files: ConfigFile) -> list[float]:
    """GiB, at least and at most."""
    write_model(folder / "model", model)
    here = situation(folder, tree, *files, processes=ranks)
    size = here.found(ModelSize)
    assert size is not None
    return [sum(memory_needed(size, one).values()) for one in training_setups(here, size)]


@pytest.mark.parametrize(
    ("model", "tree", "ranks", "files", "measured"),
    [
        (LLAMA_2_70B, {**PEFT, "quantization_bit": 4, "per_device_train_batch_size": 2}, 2, [OFFLOAD], 19.6),
        (LLAMA_2_70B, {**PEFT, "quantization_bit": 4, "per_device_train_batch_size": 2}, 2, [FSDP], 35.6),
        (LLAMA_2_70B, {**PEFT, "quantization_bit": 4, "per_device_train_batch_size": 2}, 2, [ZERO_3], 36.6),
        (LLAMA_2_70B, {**PEFT, "per_device_train_batch_size": 8}, 8, [ZERO_3], 64),
        (QWEN_7B, {**QWEN, "cutoff_len": 512}, 1, [], 20.4),
        (QWEN_7B, {**QWEN, "cutoff_len": 8192}, 1, [], 36.6),
        (QWEN_7B, {**QWEN, "cutoff_len": 8192, "quantization_bit": 4}, 1, [], 23.5),
    ],
)
def test_what_others_measured_lies_within_the_estimate(
    model: dict[str, Any], tree: dict[str, Any], ranks: int, files: list[ConfigFile], measured: float, tmp_path: Path
) -> None:
    """GB a card: peft docs/source/accelerate/fsdp.md and deepspeed.md; README of Qwen, profiling of memory."""
    low, high = estimate(tmp_path, model, tree, ranks, *files)

    assert low <= measured * 1e9 / GIB <= measured <= high


def test_the_upper_end_says_something_too(tmp_path: Path) -> None:
    low, high = estimate(tmp_path, QWEN_7B, {**QWEN, "cutoff_len": 512}, 1)

    assert high < 1.5 * low


def axolotl(folder: Path, yaml: str, mib: int = 24564) -> Verdict:
    write_model(folder / "model", LLAMA_2_7B)
    common = "base_model: model\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: auto\ngradient_checkpointing: true\n"
    (folder / "job.yaml").write_text(f"{common}num_epochs: 1\nlearning_rate: 2e-5\noptimizer: paged_adamw_8bit\n{yaml}")
    return asked(folder, "axolotl train job.yaml", 2, mib)


def test_a_yaml_of_axolotl_without_adapter_and_sharding_trains_everything_on_each_card(tmp_path: Path) -> None:
    (finding,) = of_memory(axolotl(tmp_path, ""))

    assert "but card 0 has only 24.0 GiB free" in str(finding.summary)


@pytest.mark.parametrize(
    "more",
    [
        "adapter: lora\nlora_r: 16\nlora_target_linear: true\n",
        "adapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_target_linear: true\n",
        "fsdp: [full_shard, auto_wrap]\nfsdp_config:\n  fsdp_offload_params: true\n",
        "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n  offload_params: true\n",
        "unfrozen_parameters: [model.layers.3]\n",
    ],
)
def test_a_yaml_of_axolotl_that_trains_less_or_shards_may_fit(more: str, tmp_path: Path) -> None:
    assert of_memory(axolotl(tmp_path, more)) == []


def test_a_range_that_decides_nothing_is_open_and_says_what_would_narrow_it(tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B)
    (tmp_path / "train.py").write_text(f"from peft import get_peft_model\n{TRAINER}")
    command = "torchrun --nproc-per-node 2 train.py --model_name_or_path model --learning_rate 1e-5"

    (gap,) = (gap for gap in asked(tmp_path, command, 2, 24564).not_checked if "memory" in str(gap.what))

    assert "to narrow this, set per_device_train_batch_size, bf16, use_peft" in str(gap.because)
    told = f"{command} --per_device_train_batch_size 1 --bf16 true --use_peft true"
    assert "use_peft" not in " ".join(str(gap.because) for gap in asked(tmp_path, told, 2, 24564).not_checked)


SCRIPT = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("model")
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=1, gradient_checkpointing=True GIVEN)
Trainer(model, args).train()
"""


@pytest.mark.parametrize(("given", "found"), [("", True), (", deepspeed='ds.json'", False)])
def test_arguments_in_the_source_are_those_of_the_job(given: str, found: bool, tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B, STAGE_3)
    (tmp_path / "train.py").write_text(SCRIPT.replace(" GIVEN", given))
    told = machine(tmp_path, 8, 24564)
    told.folder = "/"

    verdict = ask(told, "torchrun", "--nproc-per-node", "8", "train.py", only=("configuration",))

    assert bool(of_memory(verdict)) is found
    assert not any("names the model" in str(gap.because) for gap in verdict.not_checked)


def test_two_calls_of_one_class_say_nothing_sure(tmp_path: Path) -> None:
    write_job(tmp_path, LLAMA_2_7B)
    (tmp_path / "train.py").write_text(SCRIPT.replace(" GIVEN", "") + 'AutoModelForCausalLM.from_pretrained("other")\n')

    verdict = asked(tmp_path, "torchrun --nproc-per-node 8 train.py", 8, 24564)

    assert any("names the model" in str(gap.because) for gap in verdict.not_checked)


def test_a_reference_model_is_one_more_copy_and_none_beside_adapters(tmp_path: Path) -> None:
    def of(kind: str, stage: str, **more: str) -> list[float]:
        tree = {"finetuning_type": kind, "stage": stage, **more}
        return estimate(tmp_path / "".join((kind, stage, *more)), QWEN_2_5_3B, tree, 1)

    full, dpo, without = of("full", "sft"), of("full", "dpo"), of("full", "dpo", pref_loss="simpo")
    adapted, adapted_dpo = of("lora", "sft"), of("lora", "dpo")

    assert dpo[0] - full[0] == pytest.approx(3.09 * 2e9 / GIB, rel=0.02)
    assert adapted_dpo == adapted
    assert without == full


@pytest.mark.parametrize(("more", "found"), [("--vllm_gpu_memory_utilization 0.9", True), ("", False)])
def test_colocated_vllm_keeps_its_share_of_the_card(more: str, found: bool, tmp_path: Path) -> None:
    write_job(tmp_path, QWEN_2_5_3B)
    command = "torchrun --nproc-per-node 2 train.py --model_name_or_path model --learning_rate 1e-5 --use_peft true"
    command += f" --bf16 true --num_generations 8 --use_vllm true --vllm_mode colocate {more}"

    assert bool(of_memory(asked(tmp_path, command, 2, 24564))) is found
    assert of_memory(asked(tmp_path, command.replace("colocate", "server"), 2, 24564)) == []
