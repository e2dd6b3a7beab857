"""The size of a model: counted from the files that are here, as its makers published it, or the reason why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.launch import Configuration
from unhang.program.settings.model_size import ModelSize, find_model_size

LLAMA_2_7B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
QWEN_2_5_3B = {
    "model_type": "qwen2",
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
QWEN_2_72B = {
    **QWEN_2_5_3B,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
MIXTRAL_8X7B = {
    **LLAMA_2_7B,
    "model_type": "mixtral",
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
}
GPT_2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}


def sized(folder: Path, name: str, **environment: str) -> InspectionResult[ModelSize]:
    machine = Machine(environment=environment)
    machine.folder = str(folder)
    return find_model_size(machine, parse_command(("torchrun", "t.py", "--model_name_or_path", name)), Configuration())


def write_model(folder: Path, config: dict[str, Any], total_size: int | None = None) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    if total_size is not None:
        index = {"metadata": {"total_size": total_size}, "weight_map": {}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (LLAMA_2_7B, 6_738_415_616),
        (QWEN_2_5_3B, 3_085_938_688),
        (QWEN_2_72B, 72_706_203_648),
        (MIXTRAL_8X7B, 46_702_792_704),
        (GPT_2, 124_439_808),
    ],
)
def test_parameters_are_counted_as_published(config: dict[str, Any], published: int, tmp_path: Path) -> None:
    write_model(tmp_path / "model", config)

    size = sized(tmp_path, "model").found

    assert size is not None
    assert size.parameters == pytest.approx(published, rel=0.005)


def test_the_index_of_the_weights_counts_what_is_beside_the_text(tmp_path: Path) -> None:
    seeing = {**QWEN_2_5_3B, "model_type": "qwen2_5_vl", "vision_config": {"depth": 32}}
    write_model(tmp_path / "whole", seeing, total_size=7_509_245_952)
    write_model(tmp_path / "config_only", seeing)

    whole, config_only = sized(tmp_path, "whole"), sized(tmp_path, "config_only")

    assert whole.found is not None
    assert whole.found.parameters == 3_754_622_976
    assert config_only.found is not None
    assert (config_only.found.parameters, config_only.found.path) == (3_085_697_024, "")  # of the text part: the least
    assert str(config_only.because) == "unhang cannot count the parameters of config_only/config.json"


def test_an_architecture_that_nobody_counted_is_not_guessed(tmp_path: Path) -> None:
    write_model(tmp_path / "model", {**LLAMA_2_7B, "model_type": "mamba9"})

    assert sized(tmp_path, "model").found is None


def test_a_name_of_the_hub_is_looked_up_in_the_caches_only(tmp_path: Path) -> None:
    kept = tmp_path / "hf/hub/models--Qwen--Qwen2.5-3B"
    write_model(kept / "snapshots/abc", QWEN_2_5_3B)
    (kept / "refs").mkdir()
    (kept / "refs/main").write_text("abc")
    write_model(tmp_path / "ms/models/Qwen/Qwen2___5-3B", QWEN_2_5_3B)
    name = "Qwen/Qwen2.5-3B"

    assert sized(tmp_path, name, HF_HOME=str(tmp_path / "hf")).found is not None
    assert sized(tmp_path, name, HOME="/none", MODELSCOPE_CACHE=str(tmp_path / "ms")).found is not None
    absent = sized(tmp_path, name, HOME="/none")
    assert absent.how == "hf download Qwen/Qwen2.5-3B config.json"
    assert absent.found is not None
    assert (absent.found.parameters, absent.found.path) == (2_700_000_000, "")  # the name alone, rounded down
    assert sized(tmp_path, "openai/whisper-large-v3", HOME="/none").found is None


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"model_type": "llama", "hidden_size": "x"}', "[" * 5000])
def test_a_broken_file_is_no_model(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)

    result = sized(tmp_path, str(tmp_path))

    assert result.found is None
    assert result.because is not None


def test_adapters_are_two_thin_matrices_beside_each_module(tmp_path: Path) -> None:
    write_model(tmp_path / "model", LLAMA_2_7B)
    size = sized(tmp_path, "model").found
    assert size is not None

    # peft prints these for Llama-2-7B: r=8 on q_proj and v_proj; r=8 on all linear modules
    assert size.trained_parameters(8, ("q_proj", "v_proj")) == 4_194_304
    assert size.trained_parameters(8, ("all-linear",)) == 19_988_480


def test_of_a_model_that_also_sees_the_text_part_is_the_least(tmp_path: Path) -> None:
    parts = {"model_type": "internvl_chat", "llm_config": LLAMA_2_7B, "vision_config": {"hidden_size": 3200}}
    write_model(tmp_path / "model", parts)

    result = sized(tmp_path, "model")

    assert result.found is not None
    assert (result.found.parameters, result.found.path) == (6_738_149_376, "")
    assert str(result.because) == "unhang cannot count the parameters of model/config.json"
