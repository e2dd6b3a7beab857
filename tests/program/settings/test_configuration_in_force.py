"""Configuration files as they count in the end: overridden by the command, put together by Hydra, with references."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.environment.environment import Timers
from unhang.check.judge import judge
from unhang.check.sameness.inspection_message import decode_inspection, encode_inspection
from unhang.host.machine import Machine
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.launch.planned_job import PlannedJob
from unhang.report.check_text import check_layout
from unhang.report.localizer import Localizer

HYDRA = {
    "train.py": (
        "import hydra\n@hydra.main(version_base=None, config_path='conf', config_name='main')\ndef main(c): ...\n"
    ),
    "conf/main.yaml": (
        "defaults:\n  - base\n  - model: small\n  - optional extra: none\n  - model@teacher: large\n  - _self_\n"
        "lr: 0.1\nname: ${model.name}-${oc.env:WHO,me}\ncopy: ${lr}\n"
    ),
    "conf/base.yaml": "lr: 1.0\nsteps: 10\n",
    "conf/model/small.yaml": "name: small\nlayers: 2\n",
    "conf/model/large.yaml": "name: large\nlayers: 9\n",
    "conf/exp/fast.yaml": "# @package _global_\nsteps: 3\nmodel:\n  layers: 1\n",
}


def looked(folder: Path, files: Mapping[str, str], *command: str, **environment: str) -> dict[type, Any]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine = Machine(folder, environment)
    machine.folder = "/"
    checks = [check for check in ALL_INSPECTIONS if check.name in ("configuration", "timers")]
    here, gaps = inspect_node(machine, PlannedJob(command), checks)
    assert gaps == ()
    return {kind: here.result(kind) for kind in (Configuration, Launch, Timers)}


def tree(folder: Path, *words: str, **environment: str) -> Mapping[str, Any]:
    results = looked(folder, HYDRA, "python", "train.py", *words, **environment)
    assert results[Configuration].because is None
    return results[Configuration].found.files[0].tree


def test_hydra_puts_files_together_in_its_order(tmp_path: Path) -> None:
    assert tree(tmp_path, WHO="you") == {
        "lr": 0.1,
        "steps": 10,
        "model": {"name": "small", "layers": 2},
        "teacher": {"name": "large", "layers": 9},
        "name": "small-you",
        "copy": 0.1,
    }


def test_words_of_the_command_override_hydra(tmp_path: Path) -> None:
    found = tree(tmp_path, "model=large", "+new.a=[1,2]", "++lr=0.2", "~steps", "model.layers=4")

    assert found["model"] == {"name": "large", "layers": 4}
    assert (found["new"], found["lr"], found["copy"], "steps" in found) == ({"a": [1, 2]}, 0.2, 0.2, False)
    assert found["name"] == "large-me"


def test_another_configuration_by_name(tmp_path: Path) -> None:
    assert tree(tmp_path, "--config-path", "conf/exp", "--config-name=fast") == {"steps": 3, "model": {"layers": 1}}


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    results = looked(tmp_path, HYDRA, "python", "train.py", "model=huge")

    assert str(results[Configuration].because) == "conf/model/huge.yaml does not exist"


@pytest.mark.parametrize(
    "entry", ["- 5", "- {}", "- main", "- model: [small, large]", "- model: 7", "- override hydra/x: y", "5"]
)
def test_defaults_lists_without_end_or_sense(entry: str, tmp_path: Path) -> None:
    files = {**HYDRA, "conf/main.yaml": f"defaults:\n  {entry}\na: ${{b}}\nb: ${{a}}\n"}

    assert looked(tmp_path, files, "python", "train.py")[Configuration].found is not None


def test_a_word_of_the_command_counts_before_the_file(tmp_path: Path) -> None:
    files = {"c.toml": "[comm]\ntrain_timeout_seconds = 50\ninit_timeout_seconds = 70\n[job]\nconfig = 1\n"}

    results = looked(
        tmp_path, files, "torchrun", "t.py", "--job.config_file", "c.toml", "--comm.train_timeout_seconds", "90"
    )

    assert results[Configuration].found.files[0].get("comm.train_timeout_seconds") == 90
    timers = {timer.name: timer.seconds for timer in results[Timers].found.timers}
    assert (timers["comm.train_timeout_seconds"], timers["comm.init_timeout_seconds"]) == (90, 70)


def test_a_limit_that_a_script_exports_is_told_with_its_line(tmp_path: Path) -> None:
    files = {"run.sh": "#!/bin/bash\nexport TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=33\ntorchrun t.py\n"}

    timers = looked(tmp_path, files, "./run.sh")[Timers].found

    found = next(timer for timer in timers.timers if timer.kind == "heartbeat")
    assert (found.seconds, found.evidence.source.path, found.evidence.source.line) == (33, "run.sh", 2)


def test_accelerates_own_file_says_how_many(tmp_path: Path) -> None:
    files = {"hub/accelerate/default_config.yaml": "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\n"}

    launch = looked(tmp_path, files, "accelerate", "launch", "t.py", HF_HOME="/hub")[Launch].found

    assert (launch.processes, launch.nodes) == (8, 2)


def test_deepspeeds_host_file_says_how_many(tmp_path: Path) -> None:
    files = {"hosts": "# ours\nn1 slots=4\nn2 slots=4\n\n"}

    launch = looked(tmp_path, files, "deepspeed", "--hostfile", "hosts", "t.py")[Launch].found
    chosen = looked(tmp_path, files, "deepspeed", "--hostfile=hosts", "--num_gpus", "2", "--num_nodes=1", "t.py")

    assert (launch.processes, launch.nodes) == (4, 2)
    assert (chosen[Launch].found.processes, chosen[Launch].found.nodes) == (2, 1)


def test_as_many_processes_as_cards(tmp_path: Path) -> None:
    words = ("torchrun", "--nproc_per_node", "gpu", "t.py")

    assert looked(tmp_path, {}, *words, CUDA_VISIBLE_DEVICES="6,7,8,9")[Launch].found.processes == 4
    assert looked(tmp_path, {}, *words)[Launch].found.processes is None


def test_arguments_in_a_file(tmp_path: Path) -> None:
    files = {"args.txt": "--lr\n0.1\n--ddp_timeout 77\n\n", "run.sh": "torchrun t.py @args.txt @none.txt\n"}

    results = looked(tmp_path, files, "bash", "run.sh")

    assert results[Launch].found.arguments == {"lr": "0.1", "ddp_timeout": "77"}
    assert any(timer.seconds == 77 for timer in results[Timers].found.timers)


def test_what_scripts_export_is_seen_by_every_check_and_a_secret_stays_here(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("export HF_TOKEN=hf_abcdef\nexport NCCL_P2P_DISABLE=1\ntorchrun t.py\n")
    machine = Machine(tmp_path, {})
    machine.folder = "/"

    here, _ = inspect_node(machine, PlannedJob(("bash", "run.sh")), [ALL_INSPECTIONS[0]])

    assert here.found(JobEnvironment).value("HF_TOKEN") == "hf_abcdef"
    sent = encode_inspection(here)
    assert b"hf_abcdef" not in sent
    assert decode_inspection(sent).found(Launch).followed.environment["NCCL_P2P_DISABLE"].line == 2
    shown = check_layout(judge([here], ["environment"]), Localizer(), 80).plain()
    assert "NCCL_P2P_DISABLE · p2p-broken · run.sh:2" in shown


@pytest.mark.parametrize(
    ("command", "processes", "nodes"),
    [
        ("deepspeed --include localhost:6,7,8,9 t.py", 4, 1),
        ("deepspeed --include n1:0,1@n2:0,1 t.py", 2, 2),
        ("deepspeed --include n1@n2 t.py", None, 2),
        ("deepspeed --exclude localhost:0 t.py", None, 1),
        ("deepspeed --hostfile=hosts --exclude n1:0 t.py", None, None),
        ("deepspeed t.py", None, 1),
        ("accelerate launch --num_processes 4 t.py", 4, 1),
        ("accelerate launch --num_processes 4 --num_machines $N t.py", 4, None),
        ("accelerate launch --config_file two.yaml t.py", None, 2),
        ("accelerate launch --config_file two.yaml --num_processes 8 t.py", 4, 2),
        ("accelerate launch --config_file absent.yaml t.py", None, None),
        ("srun accelerate launch t.py", None, None),
    ],
)
def test_how_many_processes_on_how_many_nodes(
    command: str, processes: int | None, nodes: int | None, tmp_path: Path
) -> None:
    files = {"hosts": "n1 slots=4\nn2 slots=4\n", "two.yaml": "distributed_type: MULTI_GPU\nnum_machines: 2\n"}

    launch = looked(tmp_path, files, *command.split())[Launch].found

    assert (launch.processes, launch.nodes) == (processes, nodes)
