"""A training command taken apart: launcher, processes, program, arguments, configuration files."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.launch import Configuration
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings.configuration_files import collect


@pytest.mark.parametrize(
    ("line", "launcher", "world", "program", "argument"),
    [
        ("torchrun --nproc-per-node 8 train.py --lr 3e-4", "torchrun", 8, "train.py", ("lr", "3e-4")),
        ("torchrun --nnodes=2 --nproc_per_node=4 -m pkg.train --bf16 --x -1", "torchrun", 8, "pkg.train", ("x", "-1")),
        ("A=1 torchrun --standalone --nproc-per-node=2 t.py a=b", "torchrun", 2, "t.py", ("a", "b")),
        ("python -m torch.distributed.run --nproc-per-node 3 t.py --f", "torchrun", 3, "t.py", ("f", "true")),
        (
            "accelerate launch --multi_gpu --num_processes 8 --num_machines 2 t.py --a=1",
            "accelerate",
            8,
            "t.py",
            ("a", "1"),
        ),
        ("accelerate launch --config_file c.yaml t.py --a 1", "accelerate", None, "t.py", ("a", "1")),
        ("deepspeed --num_gpus 4 t.py --deepspeed ds.json", "deepspeed", 4, "t.py", ("deepspeed", "ds.json")),
        ("srun --ntasks-per-node=4 -N 2 python -u t.py --a 1", "srun", 8, "t.py", ("a", "1")),
        ("srun -N 2 torchrun --nproc-per-node 8 t.py --a 1", "torchrun", 16, "t.py", ("a", "1")),
        ("mpirun -np 4 --allow-run-as-root python t.py --a 1", "mpirun", 4, "t.py", ("a", "1")),
        ("unhang run --dir d -- torchrun --nproc-per-node 2 t.py --a 1", "torchrun", 2, "t.py", ("a", "1")),
        ("env A=1 nohup python t.py --a 1", "python", None, "t.py", ("a", "1")),
        ("llamafactory-cli train conf.yaml a=1", "llamafactory", None, "llamafactory-cli", ("a", "1")),
    ],
)
def test_commands_as_people_type_them(
    line: str, launcher: str, world: int | None, program: str, argument: tuple[str, str]
) -> None:
    launch = parse_command(shlex.split(line))

    assert (launch.launcher, launch.world_size, launch.program) == (launcher, world, program)
    assert launch.arguments[argument[0]] == argument[1]


@pytest.mark.parametrize(
    "words", [[], ["--"], ["torchrun"], ["env"], ["srun", "-N"], ["", "-"], ["unhang", "run", "--"]]
)
def test_commands_that_are_none(words: list[str]) -> None:
    parse_command(words)


def test_files_lead_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sft.yaml").write_text("stage: sft\ntemplate: qwen\ndeepspeed: ds/z3.json\nddp_timeout: 180000000\n")
    Path("ds").mkdir()
    Path("ds/z3.json").write_text('{"zero_optimization": {"stage": 3}}')
    Path("torn.toml").write_text("[comm\n")

    results = dict(collect(Machine(), PlannedJob(("llamafactory-cli", "train", "sft.yaml", "--extra", "torn.toml"))))

    found = results[Configuration]
    assert [(file.path, file.kind) for file in found.found.files] == [
        ("sft.yaml", "llamafactory"),
        ("ds/z3.json", "deepspeed"),
    ]
    assert found.found.of("deepspeed")[0].get("zero_optimization.stage") == 3
    assert "torn.toml cannot be read" in str(found.because)


def test_yaml_builds_no_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.yaml").write_text("a: !!python/object/apply:os.system ['touch hit']\n")

    dict(collect(Machine(), PlannedJob(("python", "t.py", "evil.yaml"))))

    assert not Path("hit").exists()
