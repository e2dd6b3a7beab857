"""One value of a YAML or JSON file: the diff touches nothing else, and ``check`` no longer finds what it repairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.patch.patching import TRAIN, apply, look, make_repository, of_check, summaries

pytestmark = pytest.mark.usefixtures("in_its_folder")

ASKED = ("program", "configuration")
TRAINER = "from transformers import Trainer, TrainingArguments, HfArgumentParser\n"

ACCELERATE = """\
# written by hand
distributed_type: FSDP
num_processes: 2
fsdp_config:
  fsdp_state_dict_type: {}  # rank 0 writes it all
  fsdp_offload_params: 'false'
accelerator_config:
    even_batches: {}
"""
DEEPSPEED = """\
{{
  "train_batch_size": {}, "train_micro_batch_size_per_gpu": 4,
 "gradient_accumulation_steps":2,
    "zero_optimization": {{"stage": 2}}
}}"""
FILES = {
    "state_dict": (
        "accelerate launch --config_file a.yaml train.py",
        "a.yaml",
        ACCELERATE.format("FULL_STATE_DICT", "true"),
        ACCELERATE.format('"SHARDED_STATE_DICT"', "true"),
        "gathers and writes the whole model",
    ),
    "even_batches": (
        "accelerate launch --config_file a.yaml train.py",
        "a.yaml",
        ACCELERATE.format("SHARDED_STATE_DICT", "no"),
        ACCELERATE.format("SHARDED_STATE_DICT", "true"),
        "even_batches is off",
    ),
    "product": (
        f"{TRAIN} --deepspeed ds.json",
        "ds.json",
        DEEPSPEED.format(32),
        DEEPSPEED.format(16),
        "DeepSpeed raises at startup",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_one_value_changes_and_nothing_beside_it(kind: str, tmp_path: Path) -> None:
    command, name, before, after, words = FILES[kind]
    (tmp_path / "train.py").write_text("print()\n")
    path = tmp_path / name
    path.write_text(before)

    verdict, here = look(command, ASKED)
    patch = of_check(verdict, here)

    assert any(words in summary for summary in summaries(verdict))
    assert "Read it before you apply it" in patch.text
    apply(patch, tmp_path)
    assert path.read_text() == after
    assert not any(words in summary for summary in summaries(look(command, ASKED)[0]))


def test_values_that_the_trainer_refuses_become_auto(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    path = tmp_path / "ds.json"
    text = (
        '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,\n'
        ' "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}\n'
    )
    path.write_text(text)
    command = f"{TRAIN} --deepspeed ds.json --per_device_train_batch_size 8 --gradient_accumulation_steps 1"

    apply(of_check(*look(command, ASKED)), tmp_path)

    assert path.read_text() == text.replace(": 4", ': "auto"').replace(": 2,", ': "auto",')
    assert not any("differs from the arguments" in summary for summary in summaries(look(command, ASKED)[0]))


OTHERWISE = {
    "the_command_says_it": (
        "accelerate launch --config_file a.yaml --num_processes 2 train.py --even_batches false",
        "a: 1\ndistributed_type: MULTI_GPU\n",
    ),
    "twice": ("accelerate launch --config_file a.yaml train.py", "even_batches: true\neven_batches: false\n"),
    "an_alias": (
        "accelerate launch --config_file a.yaml train.py",
        "use_cpu: &no false\neven_batches: *no\nnum_machines: 1\n",
    ),
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_a_value_that_is_not_at_one_place_stays(kind: str, tmp_path: Path) -> None:
    command, text = OTHERWISE[kind]
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "a.yaml").write_text(text)

    verdict, here = look(command, ASKED)
    patch = of_check(verdict, here)

    assert any("even_batches is off" in summary for summary in summaries(verdict))
    assert "it is not certain what to edit there" in patch.text
    assert patch.edits == 0


def test_a_file_outside_of_the_project_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project"
    make_repository(folder)
    (folder / "train.py").write_text("print()\n")
    (tmp_path / "a.yaml").write_text(FILES["even_batches"][2])
    monkeypatch.chdir(folder)

    patch = of_check(*look("accelerate launch --config_file ../a.yaml train.py", ASKED))

    assert patch.edits == 0
    assert "is outside this project" in patch.text
