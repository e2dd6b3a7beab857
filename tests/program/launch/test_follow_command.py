"""What stands before a launcher, taken off, and what it sets."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.program.launch.following import follow


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("env A=b torchrun t.py", "torchrun t.py"),
        ("env -u X -C src A=b torchrun t.py", "torchrun t.py"),
        ("nohup time torchrun t.py", "torchrun t.py"),
        ("timeout -k 5 10h torchrun t.py", "torchrun t.py"),
        ("nice -n 5 taskset -c 0-3 numactl --cpunodebind=0 torchrun t.py", "torchrun t.py"),
        ("stdbuf -oL torchrun t.py", "torchrun t.py"),
        ("sudo -E -u me torchrun t.py", "torchrun t.py"),
        ("uv run torchrun t.py", "torchrun t.py"),
        ("uv run --with trl --python 3.12 t.py --a 1", "python t.py --a 1"),
        ("conda run -n x --no-capture-output python -u t.py", "python -u t.py"),
        ("poetry run torchrun t.py", "torchrun t.py"),
        ("pixi run -e gpu torchrun t.py", "torchrun t.py"),
        ("nsys profile -o out --trace cuda torchrun t.py", "torchrun t.py"),
        ("unhang run --dir d -- torchrun t.py", "torchrun t.py"),
        ("bash -c 'cd x && torchrun t.py'", "torchrun t.py"),
        ("sh -c 'torchrun t.py \"$0\" $1' a b", "torchrun t.py a b"),
        ("bash -ex -c 'torchrun t.py'", "torchrun t.py"),
        ("ssh -p 22 host 'cd x; torchrun t.py'", "torchrun t.py"),
        ("pdsh -w n[1-2] torchrun t.py", "torchrun t.py"),
        ("docker run --gpus all --rm -it --shm-size 8g image torchrun t.py", "torchrun t.py"),
        ("singularity exec --nv -B /a:/b image.sif torchrun t.py", "torchrun t.py"),
        (
            "mpirun -np 4 -mca btl ^openib -x NCCL_DEBUG=INFO python t.py",
            "mpirun --np=4 --mca=btl ^openib --x=NCCL_DEBUG=INFO -- python t.py",
        ),
        ("python -X dev -u t.py", "python -X dev -u t.py"),
        ("./t.py --a", "python ./t.py --a"),
        ("A=b B=c torchrun t.py", "torchrun t.py"),
        ("bash -c 'exec env A=b \"$@\"' _ torchrun t.py", "torchrun t.py"),
    ],
)
def test_wrappers_are_taken_off(line: str, command: str, tmp_path: Path) -> None:
    assert follow(tmp_path, {}, *shlex.split(line)).command == command


def test_what_wrappers_set(tmp_path: Path) -> None:
    line = "env -C src A=1 docker run -e B=2 --env C=3 -w /w -v /job/code:/w image mpirun -x D=4 -np 2 python t.py"

    way = follow(tmp_path, {}, *shlex.split(line))

    assert way.environment == {"A": "1", "B": "2", "C": "3", "D": "4"}
    assert (way.told.folder, way.told.image) == ("/job/code", "image: image")
    assert (way.launch.launcher, way.launch.processes) == ("mpirun", 2)
    assert way.told.trail == ("docker image",)


def test_the_environment_that_a_wrapper_enters(tmp_path: Path) -> None:
    files = {"/opt/conda/envs/x/bin/python": "", ".venv/bin/python": ""}
    around = {"CONDA_EXE": "/opt/conda/bin/conda", "PATH": "/usr/bin", "VIRTUAL_ENV": "/v"}

    of_conda = follow(tmp_path, files, *shlex.split("conda run -n x python t.py"), **around).machine.environment
    of_uv = follow(tmp_path, files, *shlex.split("uv run torchrun t.py"), **around).machine.environment
    of_none = follow(tmp_path, files, *shlex.split("nice -n 5 torchrun t.py"), **around).machine.environment

    assert (of_conda["PATH"], of_conda["CONDA_PREFIX"]) == ("/opt/conda/envs/x/bin:/usr/bin", "/opt/conda/envs/x")
    assert "VIRTUAL_ENV" not in of_conda
    assert (of_uv["PATH"], of_uv["VIRTUAL_ENV"]) == ("/job/.venv/bin:/usr/bin", "/job/.venv")
    assert (of_none["PATH"], of_none["VIRTUAL_ENV"]) == ("/usr/bin", "/v")


def test_a_program_that_is_run_elsewhere(tmp_path: Path) -> None:
    way = follow(tmp_path, {}, *shlex.split("python submit.py --gpus 8 -- torchrun --nproc_per_node 8 t.py"))

    assert (way.launch.launcher, way.launch.processes) == ("torchrun", 8)
    assert any("python submit.py runs the program elsewhere" in note for note in way.notes)


def test_a_batch_job(tmp_path: Path) -> None:
    script = """#!/bin/bash
#SBATCH --nodes=4   # four of them
#SBATCH --ntasks-per-node 1
#SBATCH --gres=gpu:a100:8
#SBATCH -c 12
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun --label torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE --node_rank $SLURM_NODEID t.py
"""

    way = follow(tmp_path, {"job.sh": script}, "sbatch", "--nodes=2", "job.sh")

    assert (way.launch.launcher, way.launch.outer, way.launch.nodes, way.launch.processes) == ("torchrun", "srun", 2, 8)
    assert way.environment["SLURM_CPUS_PER_TASK"] == "12"
    assert "MASTER_ADDR" in way.told.unknown
    assert "job.sh:7 --node_rank $SLURM_NODEID: sbatch sets it when it starts the job" in way.notes
    assert way.told.trail == ("sbatch job.sh",)


def test_a_batch_job_whose_tasks_are_the_ranks(tmp_path: Path) -> None:
    script = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\nsrun python t.py --a 1\n"

    way = follow(tmp_path, {"job.sh": script}, "sbatch", "job.sh")

    assert (way.launch.launcher, way.launch.processes, way.launch.nodes) == ("srun", 4, 2)
    assert follow(tmp_path, {}, "sbatch", "-N2", "--wrap", "srun -n8 python t.py").launch.program == "t.py"


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: &pod {containers: [{name: c, image: reg/i:1,
      command: [bash, -c], args: ["NCCL_P2P_DISABLE=1 torchrun --nproc_per_node 8 --nnodes $WORLD_SIZE \\
      --master_addr $MASTER_ADDR t.py"],
      env: [{name: NCCL_DEBUG, value: INFO}, {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}],
      workingDir: /workspace}]}}}
    Worker: {replicas: 3, template: {spec: *pod}}
"""


def test_a_manifest_of_kubernetes(tmp_path: Path) -> None:
    way = follow(tmp_path, {"job.yaml": MANIFEST}, "kubectl", "apply", "-f", "job.yaml")

    assert (way.launch.processes, way.launch.nodes, way.told.folder) == (8, 4, "/workspace")
    assert (way.environment["NCCL_DEBUG"], way.environment["NCCL_P2P_DISABLE"]) == ("INFO", "1")
    assert way.told.image == "image: reg/i:1"
    assert "TOKEN" in way.told.unknown
    assert "job.yaml:None --master_addr $MASTER_ADDR: the cluster's operator sets it" in way.notes


@pytest.mark.parametrize(
    "text", ["", "[", "a: 1", "- 1\n- 2", "spec: {containers: 5}", "spec: {containers: [1, {args: 5}]}"]
)
def test_manifests_that_are_none(text: str, tmp_path: Path) -> None:
    assert follow(tmp_path, {"job.yaml": text}, "kubectl", "create", "-f", "job.yaml").notes


@pytest.mark.parametrize(
    "line",
    [
        "env",
        "nohup",
        "timeout",
        "srun",
        "docker run",
        "docker",
        "sbatch",
        "kubectl",
        "kubectl apply -f",
        "bash",
        "bash -c",
        "uv run",
        "ssh",
        "unhang run --",
        "mpirun",
        "env -u",
        "docker run -e",
    ],
)
def test_wrappers_around_nothing(line: str, tmp_path: Path) -> None:
    assert follow(tmp_path, {}, *line.split()).told is not None
