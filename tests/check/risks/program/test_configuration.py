"""Configurations that would stop or stall a job, and the ones beside them that would not."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.findings import Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

CHECKS = [check for check in ALL_INSPECTIONS if check.name == "configuration"]
GRPO = "torchrun --nproc-per-node {ranks} g.py --num_generations {count} --per_device_train_batch_size {batch} {more}"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.py").write_text("")
    (tmp_path / "t.py").write_text("")


def ask(command: str) -> Verdict:
    situation, gaps = inspect_node(Machine(environment={}), PlannedJob(tuple(command.split())), CHECKS)
    return judge([situation], ["configuration"], gaps)


def subjects(verdict: Verdict) -> list[str]:
    return [finding.subject for finding in verdict.findings]


@pytest.mark.parametrize(("whole", "wrong"), [("48", False), ("64", True), ('"auto"', False)])
def test_deepspeed_s_batches_multiply(whole: str, wrong: bool) -> None:
    Path("ds.json").write_text(
        f'{{"train_batch_size": {whole}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}}'
    )

    verdict = ask("deepspeed --num_gpus 6 t.py --deepspeed ds.json")

    assert subjects(verdict) == (["train_batch_size"] if wrong else [])


@pytest.mark.parametrize(
    ("ranks", "count", "batch", "more", "wrong"),
    [
        (8, 8, 1, "", []),
        (6, 8, 1, "", ["num_generations"]),
        (6, 8, 1, "--gradient_accumulation_steps 4", []),
        (8, 1, 1, "", ["num_generations"]),
        (8, 8, 1, "--generation_batch_size 12", ["generation_batch_size"]),
        (8, 8, 1, "--generation_batch_size 16 --steps_per_generation 2", ["generation_batch_size"]),
    ],
)
def test_generations_fit_the_batch(ranks: int, count: int, batch: int, more: str, wrong: list[str]) -> None:
    assert subjects(ask(GRPO.format(ranks=ranks, count=count, batch=batch, more=more))) == wrong


@pytest.mark.parametrize(
    ("length", "more", "stage", "wrong"),
    [
        (1024, "", 2, False),
        (16384, "", 3, True),
        (16384, "--use_vllm true", 3, False),
        (16384, "--ddp_timeout 7200", 2, False),
    ],
)
def test_the_longest_answer_fits_in_the_limit(length: int, more: str, stage: int, wrong: bool) -> None:
    Path("ds.json").write_text(f'{{"zero_optimization": {{"stage": {stage}}}}}')
    more = f"--max_completion_length {length} --deepspeed ds.json {more}"

    verdict = ask(GRPO.format(ranks=8, count=8, batch=1, more=more))

    assert ("max_completion_length" in subjects(verdict)) is wrong


@pytest.mark.parametrize(("tensor", "shard", "wrong"), [(4, -1, False), (3, -1, True), (4, 2, False), (4, 4, True)])
def test_parallel_degrees_fit_the_ranks(tensor: int, shard: int, wrong: bool) -> None:
    Path("t.toml").write_text(
        f"[comm]\n[parallelism]\ntensor_parallel_degree = {tensor}\ndata_parallel_shard_degree = {shard}\n"
    )

    verdict = ask("torchrun --nproc-per-node 8 -m torchtitan.train --job.config_file t.toml")

    assert bool(subjects(verdict)) is wrong


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("torchrun --nproc-per-node 6 train.py n.yml", True),
        ("torchrun --nproc-per-node 8 train.py n.yml", False),
        ("torchrun train.py n.yml", False),
    ],
)
def test_degrees_of_gpt_neox_divide_the_ranks(command: str, wrong: bool) -> None:
    Path("n.yml").write_text('{"pipe-parallel-size": 2, "model_parallel_size": 2}\n')

    verdict = ask(command)

    assert bool(subjects(verdict)) is wrong
    assert all("divisor of 6" in str(one.remedies[0].change) for one in verdict.findings)


@pytest.mark.parametrize(("limit", "noted"), [("", True), ("--ddp_timeout 7200", False)])
def test_a_full_state_dict_under_the_usual_limit_is_a_note(limit: str, noted: bool) -> None:
    Path("a.yaml").write_text(
        "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_state_dict_type: FULL_STATE_DICT\n"
    )

    verdict = ask(f"accelerate launch --config_file a.yaml t.py --output_dir o {limit}")

    assert subjects(verdict) == (["fsdp_config.fsdp_state_dict_type"] if noted else [])


@pytest.mark.parametrize(("value", "wrong"), [("false", True), ("true", False)])
def test_uneven_batches(value: str, wrong: bool) -> None:
    Path("a.yaml").write_text(f"output_dir: o\naccelerator_config:\n  even_batches: {value}\n")

    assert bool(subjects(ask("accelerate launch t.py --config a.yaml"))) is wrong


def test_without_a_command_nothing_is_said() -> None:
    verdict = ask("")

    assert (verdict.findings, verdict.not_checked) == ((), ())


@pytest.mark.parametrize(
    ("folder", "log", "wrong"),
    [
        ("s3://runs/llama3", "true", ["job.dump_folder"]),
        ("s3://runs/llama3", "false", []),  # checkpoints alone: they are written once
        ("/mnt/runs", "true", []),
    ],
)
def test_a_log_whose_address_is_an_object_store(folder: str, log: str, wrong: list[str]) -> None:
    Path("c.toml").write_text(f'[job]\ndump_folder = "{folder}"\n[metrics]\nenable_tensorboard = {log}\n')

    assert subjects(ask("torchrun t.py --job.config_file c.toml")) == wrong


def test_a_log_folder_in_the_command_is_an_object_store() -> None:
    assert subjects(ask("torchrun t.py --logging_dir gs://runs/tb")) == ["logging_dir"]
