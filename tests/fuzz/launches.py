"""Scripts, manifests and projects that lead to a program, for the target ``check``: commands with their files."""

from __future__ import annotations

from collections.abc import Mapping

RUN = """#!/bin/bash
set -e
N=${N:-8}; export NCCL_DEBUG=INFO
while [[ $# -gt 0 ]]; do case $1 in --n) N=$2; shift 2;; *) R+=("$1"); shift;; esac; done
if nvidia-smi; then A=1 B=2
else A=${N##*/}; fi
f() { cat <<EOF
$1
EOF
}
for i in {1..3} $(f x); do S="$S $i"; done
cd "$(dirname "$0")"
eval "env X=$((N * 2)) torchrun --nproc_per_node $N train.py" "${R[@]}" $S <your_path> 2>&1 | tee log
"""
JOB = """#!/bin/bash
#SBATCH -N 2 --gres=gpu:8
#SBATCH --ntasks-per-node=1
srun -l --export=ALL,A=1 bash -c 'python -u -m torch.distributed.run --nnodes $SLURM_NNODES \\
  --nproc_per_node $SLURM_GPUS_ON_NODE train.py @args'
"""
MANIFEST = """
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{image: i, command: [sh, -c, 'torchrun --nproc_per_node gpu train.py'],
        env: [{name: A, value: '1'}, {name: B, valueFrom: {}}], workingDir: /w}]}}
"""
PROJECT = """
from setuptools import setup
setup(entry_points={'console_scripts': ['start = train:main']})
"""
LAUNCHES: Mapping[str, tuple[str, bytes]] = {
    "bash run.sh --n 4 a 'b c'": ("run.sh", RUN.encode()),
    "sbatch --nodes=3 job.sh": ("job.sh", JOB.encode()),
    "kubectl apply -f job.yaml": ("job.yaml", MANIFEST.encode()),
    "start --x 1": ("setup.py", PROJECT.encode()),
    "docker run -e A=1 -v /:/w -w /w image uv run --with x bash -c 'cd /w; exec ./run.sh'": ("run.sh", RUN.encode()),
}
