"""Five real projects at the commits of their reports, each asked once: which of the causes ``unhang check`` finds.

    python -m benchmarks real-projects FOLDER

FOLDER holds the projects by name, extracted at the commits below, and for llama-cookbook a data set of the user's
(``user/my_dataset.py``, which splits with ``train_test_split`` without a seed). They are read where they lie, nothing
of them is run or stored; what they need to be installed is not. The table it prints stands in docs/stories.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something the answer must hold: ``words``, all of them in one finding, line that is fine, or gap."""

    what: str
    words: tuple[str, ...]
    part: str = "findings"
    """``findings``, ``checked`` or ``not_checked`` of the answer."""


@dataclass(frozen=True, slots=True)
class Project:
    """One project, its report, the command it was started with, and what must be found."""

    name: str
    report: str
    commit: str
    command: str
    wanted: tuple[Wanted, ...]
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


PROJECTS = (
    Project(
        "llama-cookbook",
        "meta-llama/llama-cookbook#567",
        "01e6574",
        "torchrun --nnodes 1 --nproc_per_node 4 recipes/finetuning/finetuning.py --enable_fsdp "
        "--dataset custom_dataset --custom_dataset.file {root}/user/my_dataset.py",
        (Wanted("the split without a seed in the user's data set", ("train_test_split", "my_dataset.py")),),
    ),
    Project(
        "open_clip",
        "mlfoundations/open_clip#1024",
        "63fbfd8",
        "torchrun --nproc_per_node 8 -m open_clip_train.main --train-data T.csv --dataset-type csv --val-data V.csv",
        (
            Wanted("validation on rank 0 only, and the limit", ("single-rank-work", "train.py", "evaluate", "600")),
            Wanted("where the others wait", ("single-rank-work", "evaluate", "train.py:59")),
        ),
        folder="src",
    ),
    Project(
        "LLaMA-Factory",
        "hiyouga/LLaMA-Factory#7158",
        "31f9daa",
        "llamafactory-cli train examples/train_lora/llama3_lora_sft.yaml",
        (
            Wanted(
                "cards chosen by number, no device before the first barrier", ("device-mapping", "6,7,8,9", "loader")
            ),
            Wanted("the two commands that would tell", ("device-mapping", "unhang bisect", "check --only probe")),
            Wanted(
                "what NCCL_P2P_DISABLE=1 costs (not: on that machine, whose topology is not here)",
                ("NCCL_P2P_DISABLE",),
            ),
        ),
        environment={"CUDA_VISIBLE_DEVICES": "6,7,8,9", "NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
    ),
    Project(
        "torchtitan",
        "pytorch/torchtitan#1092",
        "4f532e0",
        "./run_train.sh --metrics.enable_tensorboard --metrics.enable_profiling",
        (
            Wanted("metric writes of rank 0 in the step loop", ("single-rank-work", "add_scalar", "metrics.py")),
            Wanted("the folder and the limit of 100 s beside it", ("single-rank-work", "./outputs", " 100 s at most")),
            Wanted(
                "--metrics.enable_profiling is no flag",
                ("metrics.enable_profiling", "profiling.enable_profiling"),
                "not_checked",
            ),
        ),
    ),
    Project(
        "VLM-R1",
        "om-ai-lab/VLM-R1#109",
        "f7ce3c7",
        "bash src/open-r1-multimodal/run_scripts/run_grpo_rec.sh",
        (
            Wanted("the limit against generation time", ("256 tokens", "1,800"), "checked"),
            Wanted("batch arithmetic by its own trainer's rule", ("grpo_trainer.py:411", "possible_values"), "checked"),
            Wanted("versions by direction: transformers 4.49.0 is what helped", ("transformers", "4.49.0")),
        ),
    ),
)


def answer_of(project: Project, root: Path) -> dict[str, Any]:
    """What ``unhang check`` says, as JSON. Raises ``SystemExit`` where it says nothing."""
    words = project.command.format(root=root).split()
    program = [str(Path(sys.executable).with_name("unhang")), "check", "--format", "json", "--", *words]
    done = subprocess.run(
        program,
        cwd=root / project.name / project.folder,
        env={**os.environ, **project.environment, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if not done.stdout.strip():
        raise SystemExit(f"{project.name}: no answer: {done.stderr.strip()[-300:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def is_found(wanted: Wanted, answer: Mapping[str, Any]) -> bool:
    """One entry of the answer holds all of the words."""
    entries = (json.dumps(entry, ensure_ascii=False) for entry in answer.get(wanted.part, ()))
    return any(all(word in entry for word in wanted.words) for entry in entries)


def rows(root: Path) -> Iterator[str]:
    """The table's lines."""
    yield "| project | started as | what its report is about | found |"
    yield "|---|---|---|---|"
    for project in PROJECTS:
        if not (root / project.name).is_dir():
            yield f"| {project.report} at `{project.commit}` | | | could not look: not in the folder |"
            continue
        answer = answer_of(project, root)
        for at, wanted in enumerate(project.wanted):
            head = f"{project.report} at `{project.commit}` | `{_shown(project)}`" if not at else " | "
            yield f"| {head} | {wanted.what} | {'✓' if is_found(wanted, answer) else '✗ not found'} |"
        stops = sum(one.get("severity") in ("stops", "slows") for one in answer.get("findings", ()))
        yield f"| | | findings that stop or slow it, and notes | {stops}, {len(answer.get('findings', ())) - stops} |"


def _shown(project: Project) -> str:
    return " ".join((*(f"{k}={v}" for k, v in project.environment.items()), project.command.format(root="..")))


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks real-projects", description=__doc__)
    parser.add_argument("folder", type=Path)
    for line in rows(parser.parse_args(arguments).folder.resolve()):
        print(line)
    return 0
