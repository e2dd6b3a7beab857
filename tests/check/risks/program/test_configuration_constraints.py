"""Configuration files of training libraries that stop a job, or do not do what they say; beside each one its twin."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.findings import Certainty, Severity, Verdict
from unhang.host.machine import Machine
from unhang.knowledge.tables import read_table
from unhang.knowledge.words import text_of
from unhang.program.launch.planned_job import PlannedJob

CHECKS = [check for check in ALL_INSPECTIONS if check.name == "configuration"]
PROGRAMS = {
    "trainer.py": (
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "Trainer(model=None, args=args).train()\n"
    ),
    "grpo.py": (
        "from trl import GRPOConfig, GRPOTrainer, TrlParser\n"
        "(args,) = TrlParser(GRPOConfig).parse_args_and_config()\n"
        "GRPOTrainer(model='m', args=args).train()\n"
    ),
    "bare.py": (
        "import argparse\nimport deepspeed\n"
        "parser = deepspeed.add_config_arguments(argparse.ArgumentParser())\n"
        "engine, *_ = deepspeed.initialize(args=parser.parse_args(), model=None)\n"
    ),
    "loop.py": "from accelerate import Accelerator\naccelerator = Accelerator()\n",
    "own.py": "import sys\nprint(open(sys.argv[1]).read())\n",
}
ZERO_2: Mapping[str, Any] = {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}
TRAINER = "deepspeed --num_gpus 4 trainer.py --output_dir o --deepspeed ds.json"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in PROGRAMS.items():
        Path(name).write_text(text)


def ask(command: str, *, deepspeed: str = "0.19.8") -> Verdict:
    plan = PlannedJob(tuple(command.split()), {"deepspeed": deepspeed})
    situation, gaps = inspect_node(Machine(environment={}), plan, CHECKS)
    return judge([situation], ["configuration"], gaps)


def said(verdict: Verdict) -> str:
    return " | ".join(" ".join([str(one.summary), *map(str, one.because)]) for one in verdict.findings)


def open_questions(verdict: Verdict) -> str:
    return " | ".join(f"{one.what}: {one.because}" for one in verdict.not_checked)


def write(name: str, value: Mapping[str, Any] | str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("name", "command", "error"),
    [
        ("ds.json", TRAINER, "ValueError: Expected a string path to an existing deepspeed config"),
        ("ds.json", "deepspeed --num_gpus 2 bare.py --deepspeed_config ds.json", "binascii.Error: Incorrect padding"),
        ("a.yaml", "accelerate launch --config_file a.yaml loop.py", "FileNotFoundError: The passed configuration"),
        ("x.yaml", "llamafactory-cli train x.yaml", "FileNotFoundError"),
        ("t.toml", "torchrun --nproc-per-node 8 -m torchtitan.train --job.config_file t.toml", "FileNotFoundError"),
    ],
)
def test_a_file_that_is_not_there_stops_the_job(name: str, command: str, error: str) -> None:
    missing = ask(command)

    assert [one.subject for one in missing.findings] == [name]
    assert f"{name} does not exist" in said(missing)
    assert error in said(missing)
    assert missing.findings[0].certainty is Certainty.CERTAIN
    write(name, ZERO_2 if name == "ds.json" else "distributed_type: 'NO'\n" if name == "a.yaml" else "a = 1\n")
    assert "does not exist" not in said(ask(command)) + open_questions(ask(command))


def test_a_file_of_the_program_s_own_is_likely_needed_and_an_output_is_not() -> None:
    verdict = ask("python own.py --config conf/run.yaml --output_file out.json")

    assert [(one.subject, one.certainty) for one in verdict.findings] == [("conf/run.yaml", Certainty.LIKELY)]


@pytest.mark.parametrize(
    ("name", "text", "command", "where"),
    [
        ("ds.json", '{"zero_optimization": {"stage": 2},\n "bf16": {"enabled": true},}\n', TRAINER, "line 2 column"),
        ("ds.json", "[1, 2]", TRAINER, "holds no settings by name"),
        (
            "a.yaml",
            "distributed_type: FSDP\n  num_processes: 8\n",
            "accelerate launch --config_file a.yaml loop.py",
            "line 2 column",
        ),
    ],
)
def test_a_broken_file_is_said_with_its_place(name: str, text: str, command: str, where: str) -> None:
    write(name, text)

    verdict = ask(command)

    assert [one.subject for one in verdict.findings] == [name]
    assert where in said(verdict)


@pytest.mark.parametrize(
    "text",
    [
        '{"train_batch_size": 8, // all ranks\n}',
        '# ours\n{\n  train_batch_size: 8  /* all\n ranks */\n  "zero_optimization": {"stage": 2}\n}',
    ],
)
def test_deepspeed_itself_reads_hjson(text: str) -> None:
    write("ds.json", text)
    verdict = ask("deepspeed --num_gpus 2 bare.py --deepspeed_config ds.json")
    assert verdict.findings == ()
    assert "ds.json cannot be read" not in open_questions(verdict)

    write("ds.json", text.replace("train_batch_size", "train_batch_sise"))
    assert "train_batch_sise" in said(ask("deepspeed --num_gpus 2 bare.py --deepspeed_config ds.json"))


def test_hjson_beyond_what_is_read_is_an_open_question() -> None:
    write("ds.json", "{\n  communication_data_type: fp16 and more\n}")

    verdict = ask("deepspeed --num_gpus 2 bare.py --deepspeed_config ds.json")

    assert verdict.findings == ()
    assert "ds.json cannot be read" in open_questions(verdict)


@pytest.mark.parametrize("stage", [7, 2])
def test_settings_in_place_of_a_path(stage: int) -> None:
    text = json.dumps({"zero_optimization": {"stage": stage}}, separators=(",", ":"))
    for command in (
        f"torchrun --nproc-per-node 2 trainer.py --output_dir o --deepspeed {text}",
        f"deepspeed --num_gpus 2 bare.py --deepspeed_config {base64.urlsafe_b64encode(text.encode()).decode()}",
    ):
        assert ("stage cannot be 7" in said(ask(command))) is (stage == 7)

    broken = ask("torchrun --nproc-per-node 2 trainer.py --output_dir o --deepspeed {'zero_optimization':{}}")
    assert "json.decoder.JSONDecodeError" in said(broken)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('cat > ds.json <<EOF\n{"zero_optimization": {"stage": 7}}\nEOF\n', "stage cannot be 7"),
        ('cat > ds.json <<EOF\n{"zero_optimization": {"stage": 2}}\nEOF\n', ""),
        ("mkdir -p sub\ncd sub\n", "ds.json does not exist"),
        ("cp template.json ds.json\n", None),
        ("python make.py --out ds.json\n", None),
        ("python make.py > ds.json\n", None),
        ("", "ds.json does not exist"),
    ],
)
def test_a_script_may_write_the_file_first(script: str, expected: str | None) -> None:
    Path("sub").mkdir()
    write("sub/trainer.py", PROGRAMS["trainer.py"])
    if "cd sub" in script:
        write("ds.json", ZERO_2)
    write("run.sh", f"{script}{TRAINER}\n")

    verdict = ask("bash run.sh")

    if expected is None:
        assert verdict.findings == ()
        assert "ds.json: an earlier command of the script may write it" in open_questions(verdict)
    else:
        assert expected in said(verdict)
        assert bool(verdict.findings) is bool(expected)


def test_a_path_known_only_at_run_time_is_an_open_question() -> None:
    write("run.sh", "deepspeed --num_gpus 4 trainer.py --deepspeed $CONF/ds.json\n")

    verdict = ask("bash run.sh")

    assert verdict.findings == ()
    assert "its path is known only at run time" in open_questions(verdict)


@pytest.mark.parametrize(
    ("change", "expected", "severity"),
    [
        ({"zero_optimization": {"stage": 7}}, "zero_optimization.stage cannot be 7", Severity.STOPS),
        ({"zero_optimization": {"stage": 3}}, "", None),
        ({"zero_optimization": {"stagee": 2}}, "no key zero_optimization.stagee", Severity.STOPS),
        (
            {"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}},
            "offload_param counts only with ZeRO stage 3",
            Severity.SLOWS,
        ),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}, "", None),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}, "", None),
        (
            {"zero_optimization": {"stage": 3, "offload_param": {"device": "disk"}}},
            "device cannot be disk",
            Severity.STOPS,
        ),
        ({"gradient_acumulation_steps": 4}, "no key gradient_acumulation_steps", Severity.SLOWS),
        ({"_comment": "ours"}, "no key _comment", Severity.NOTE),
        ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16 and bf16 are both enabled", Severity.STOPS),
        ({"scheduler": {"type": "WarmupDecay"}}, "scheduler.type cannot be WarmupDecay", Severity.STOPS),
        ({"scheduler": {"type": "WarmupDecayLR"}}, "", None),
        ({"optimizer": {"type": "AdamW8"}}, "optimizer.type cannot be AdamW8", Severity.STOPS),
        ({"amp": {"enabled": False}}, "DeepSpeed no longer takes these keys", Severity.STOPS),
    ],
)
def test_keys_and_values_of_deepspeed(change: Mapping[str, Any], expected: str, severity: Severity | None) -> None:
    write("ds.json", {**ZERO_2, **change})

    findings = ask(TRAINER).findings
    findings = tuple(one for one in findings if "differs from the arguments" not in said_of(one))

    assert [expected in said_of(one) for one in findings] == ([True] if expected else [])
    assert [one.severity for one in findings] == ([severity] if expected else [])


def said_of(finding: Any) -> str:
    return str(finding.summary)


def test_a_key_of_last_year_is_fine_with_a_release_of_last_year_and_a_typo_names_the_key() -> None:
    write("ds.json", {**ZERO_2, "amp": {"enabled": False}})
    assert ask(TRAINER, deepspeed="0.15.0").findings == ()

    write("ds.json", {**ZERO_2, "gradient_acumulation_steps": 4})
    assert "write gradient_accumulation_steps" in str(ask(TRAINER).findings[0].remedies[0].change)


def test_the_trainer_and_accelerate_ask_for_zero() -> None:
    write("ds.json", {"train_micro_batch_size_per_gpu": "auto"})
    assert "there is no zero_optimization" in said(ask(TRAINER))

    write("ds.json", {"train_batch_size": 8})
    assert ask("deepspeed --num_gpus 2 bare.py --deepspeed_config ds.json").findings == ()


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("distributed_type: FSPD\nnum_processes: 8\n", "", "distributed_type cannot be FSPD"),
        ("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: FULL\n", "", "be FULL"),
        ("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: 1\n", "", ""),
        (
            "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_WRAP\n",
            "",
            "fsdp_auto_wrap_policy cannot be TRANSFORMER_WRAP",
        ),
        (
            "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: fp32\n",
            "",
            "mixed_precision cannot be fp32",
        ),
        ("distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n", "", ""),
        ("distributed_type: MULTI_GPU\nnum_procs: 8\nnum_processes: 8\n", "", "no key num_procs"),
        ("num_processes: 8\n", "", "distributed_type is not set"),
        ("distributed_type: MULTI_GPU\n", "", "sets num_processes"),
        ("distributed_type: MULTI_GPU\n", "--num_processes 4", ""),
        ("distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: '3'\n", "", "a single GPU in gpu_ids"),
        ("distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: 2,3\n", "", ""),
        (
            "distributed_type: MULTI_GPU\nnum_processes: 4\ngpu_ids: 2,3\n",
            "",
            "4 processes, but only 2 GPUs in gpu_ids",
        ),
        ("distributed_type: MULTI_GPU\nnum_processes: 4\ngpu_ids: all\n", "", ""),
        ("distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: no\n", "", "unquoted no as false"),
        ("distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: 'no'\n", "", ""),
        (
            "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 4\n",
            "",
            "zero_stage cannot be 4",
        ),
        (
            (
                "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
                "  zero_stage: 2\n  offload_param_device: cpu\n"
            ),
            "",
            "offload_param_device counts only with ZeRO stage 3",
        ),
        (
            (
                "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\ndeepspeed_config:\n"
                "  deepspeed_config_file: ds.json\n"
            ),
            "",
            "accelerate's own file may not set these (mixed_precision)",
        ),
        (
            "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n",
            "",
            "",
        ),
        (
            "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: gone.json\n",
            "",
            "gone.json does not exist",
        ),
    ],
)
def test_accelerate_s_file(text: str, more: str, expected: str) -> None:
    write("ds.json", ZERO_2)
    write("a.yaml", text)

    verdict = ask(f"accelerate launch --config_file a.yaml {more} loop.py")

    assert [expected in said_of(one) for one in verdict.findings] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("word", "text", "expected"),
    [
        ("full_shard auto_wrap", {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}, ""),
        ("full_shrad", {}, "fsdp cannot be full_shrad"),
        ("full_shard", {"fsdp_auto_wrap_policy": "TRANSFORMER"}, "fsdp_auto_wrap_policy cannot be TRANSFORMER"),
        ("full_shard", {"fsdp_transformer_layer_to_wrap": "Block"}, "no key fsdp_transformer_layer_to_wrap"),
    ],
)
def test_the_trainer_s_fsdp(word: str, text: Mapping[str, Any], expected: str) -> None:
    write("fsdp.json", text)
    write("run.sh", f'torchrun --nproc-per-node 4 trainer.py --output_dir o --fsdp "{word}" --fsdp_config fsdp.json\n')

    verdict = ask("bash run.sh")

    assert [expected in said_of(one) for one in verdict.findings] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("change", "more", "expected"),
    [
        ({"train_micro_batch_size_per_gpu": 4}, "--per_device_train_batch_size 4", ""),
        ({"train_micro_batch_size_per_gpu": 8}, "", ""),
        (
            {"train_micro_batch_size_per_gpu": 4},
            "",
            "train_micro_batch_size_per_gpu is 4 in the file; per_device_train_batch_size comes to 8",
        ),
        (
            {"gradient_accumulation_steps": 4},
            "--gradient_accumulation_steps 8",
            "gradient_accumulation_steps comes to 8",
        ),
        ({"gradient_accumulation_steps": "auto"}, "--gradient_accumulation_steps 8", ""),
        ({"train_batch_size": 64}, "--per_device_train_batch_size 4 --gradient_accumulation_steps 4", ""),
        ({"train_batch_size": 32}, "--per_device_train_batch_size 4 --gradient_accumulation_steps 4", "comes to 64"),
        ({"bf16": {"enabled": True}}, "--bf16", ""),
        ({"bf16": {"enabled": True}}, "--bf16 True", ""),
        ({"bf16": {"enabled": True}}, "", "bf16.enabled is True"),
        ({"fp16": {"enabled": "auto"}}, "--bf16", ""),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}, "--learning_rate 1e-5", ""),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}, "--learning_rate 2e-5", "comes to 2e-05"),
        ({"optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}, "--adam_beta2 0.95", ""),
        ({"optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}, "", "adam_beta1 + adam_beta2"),
        ({"gradient_clipping": 1.0}, "", ""),
        ({"gradient_clipping": 0.5}, "", "max_grad_norm comes to 1 (the default where not set)"),
        ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}, "--warmup_steps 100", ""),
        ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}, "--warmup_steps 50", "comes to 50"),
    ],
)
def test_deepspeed_s_file_against_the_trainer_s_arguments(change: Mapping[str, Any], more: str, expected: str) -> None:
    write("ds.json", {**ZERO_2, **change})

    verdict = ask(f"{TRAINER} {more}")

    assert bool(verdict.findings) is bool(expected), said(verdict)
    assert expected in said(verdict)
    if expected:
        assert "ValueError: Please correct the following DeepSpeed config values" in said(verdict)
        assert '"auto" for' in str(verdict.findings[0].remedies[0].change)


def test_what_the_arguments_do_not_say_is_an_open_question() -> None:
    write("ds.json", {**ZERO_2, "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-6}}})

    grpo = ask("accelerate launch --num_processes 4 grpo.py --output_dir o --deepspeed ds.json")

    assert grpo.findings == ()  # TRL has other defaults than transformers
    assert "the arguments do not show these values: optimizer.params.lr, bf16.enabled" in open_questions(grpo)


def test_llama_factory_s_file_holds_the_arguments_and_names_deepspeed_s() -> None:
    write("x.yaml", "stage: sft\noutput_dir: o\ndeepspeed: z3.json\ngradient_accumulation_steps: 8\n")
    write("z3.json", {**ZERO_2, "gradient_accumulation_steps": 2})
    assert "gradient_accumulation_steps comes to 8" in said(ask("llamafactory-cli train x.yaml"))

    write("z3.json", {**ZERO_2, "gradient_accumulation_steps": 8})
    assert ask("llamafactory-cli train x.yaml").findings == ()


def test_arguments_and_dictionaries_in_the_source() -> None:
    source = (
        "from transformers import Trainer, TrainingArguments\n"
        "DS = {'zero_optimization': {'stage': STAGE}, 'train_micro_batch_size_per_gpu': 'auto'}\n"
        "args = TrainingArguments('o', per_device_train_batch_size=2, deepspeed=GIVEN)\n"
        "Trainer(model=None, args=args).train()\n"
    )
    write("code.py", source.replace("STAGE", "5").replace("GIVEN", "DS"))
    assert "code.py:3: zero_optimization.stage cannot be 5" in said(ask("torchrun --nproc-per-node 2 code.py"))

    write("code.py", source.replace("STAGE", "2").replace("GIVEN", "DS"))
    assert ask("torchrun --nproc-per-node 2 code.py").findings == ()

    write("code.py", source.replace("STAGE", "2").replace("GIVEN", "'conf/ds.json'"))
    assert "conf/ds.json does not exist" in said(ask("torchrun --nproc-per-node 2 code.py"))

    write("conf/ds.json", {**ZERO_2, "train_micro_batch_size_per_gpu": 4})
    assert "per_device_train_batch_size comes to 2" in said(ask("torchrun --nproc-per-node 2 code.py"))


def test_auto_is_filled_in_by_the_trainer_and_by_accelerate_alone() -> None:
    write("ds.json", {**ZERO_2, "bf16": {"enabled": "auto"}})

    bare = ask("deepspeed --num_gpus 2 bare.py --deepspeed_config ds.json")

    assert "deepspeed.initialize takes it for a number (train_micro_batch_size_per_gpu)" in said(bare)
    assert "the precision stays off (bf16.enabled)" in said(bare)
    assert ask(TRAINER).findings == ()
    assert "whether the Trainer, accelerate or deepspeed.initialize reads it" in open_questions(
        ask("torchrun --nproc-per-node 2 own.py --deepspeed ds.json")
    )


def test_what_lies_in_a_container_is_not_missed() -> None:
    verdict = ask(f"docker run --gpus all img {TRAINER}")

    assert verdict.findings == ()
    assert "ds.json does not exist" in open_questions(verdict)


def test_a_folder_known_only_at_run_time_is_not_missed() -> None:
    write("run.sh", f"cd $(python where.py)\n{TRAINER}\n")

    verdict = ask("bash run.sh")

    assert verdict.findings == ()
    assert "ds.json does not exist" in open_questions(verdict)


def test_a_file_may_lie_in_a_folder_that_the_command_names() -> None:
    write("configs/run.yml", "a: 1\n")

    assert ask("python own.py -d configs run.yml").findings == ()
    assert [one.subject for one in ask("python own.py -d other run.yml").findings] == ["run.yml"]


def test_a_configuration_that_the_program_builds_is_no_path() -> None:
    write("built.py", "import deepspeed\ndeepspeed.initialize(model=None, config=make())\n")

    assert "config=: known only at run time" in open_questions(ask("deepspeed built.py"))


@pytest.mark.parametrize(
    ("more", "unknown"),
    [({"num-layers": 2, "hidden-size": 8, "seq-length": 9}, []), ({"zero_optimisation": 1}, ["run.yml"])],
)
def test_a_file_of_the_program_s_own_may_hold_keys_of_deepspeed(more: Mapping[str, Any], unknown: list[str]) -> None:
    write("run.yml", {"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4, **more})

    assert [one.subject for one in ask("deepspeed own.py run.yml").findings] == unknown


@pytest.mark.parametrize("own", ["", "def TrainingArguments(fsdp_config):\n    return fsdp_config\n"])
def test_what_a_function_of_the_program_is_given_is_its_own_setting(own: str) -> None:
    imports = own or "from transformers import TrainingArguments\n"
    write("fsdp.py", f"{imports}TrainingArguments(fsdp_config={{'enable_cpu_offload': True}})\n")

    assert ("no key enable_cpu_offload" in said(ask("torchrun fsdp.py"))) is not bool(own)


def test_a_dictionary_for_deepspeed_itself_is_read_by_no_trainer_and_no_launcher() -> None:
    """The models that only score get settings of their own beside those of accelerate."""
    given = "config={'train_micro_batch_size_per_gpu': 1, 'bf16': {'enabled': True}}"
    write("ppo.py", f"import deepspeed\n{PROGRAMS['loop.py']}deepspeed.initialize(model=None, {given})\n")
    write(
        "a.yaml",
        "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 4\ndeepspeed_config: {zero_stage: 2}\n",
    )

    assert said(ask("accelerate launch --config_file a.yaml ppo.py")) == ""


def test_every_change_can_be_said() -> None:
    for row in read_table("configuration_constraints.toml")["constraint"]:
        for phrase in (row.get("change", ""), row.get("problem", "")):
            assert str(text_of(phrase, {})) or not phrase
