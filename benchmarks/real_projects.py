"""Five real projects at the commits of their reports, each asked once: which of the causes ``unhang check`` finds.

    python -m benchmarks real-projects FOLDER [--python ENVIRONMENTS/{name}/bin/python]

FOLDER holds the projects by name, extracted at the commits below, and for llama-cookbook a data set of the user's
(``user/my_dataset.py``, which splits with ``train_test_split`` without a seed). They are read where they lie, nothing
of them is run or stored. The launch is in an environment with nothing in it, or in that of ``--python``, where
``{name}`` stands for the project. The tables it prints stand in docs/stories.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
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
            Wanted("the two commands that would settle it", ("device-mapping", "unhang bisect", "check --only probe")),
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
            Wanted(
                "versions by direction: transformers 4.49.0 is what helped",
                ("transformers 4.49.0", "the release to go back to"),
                "checked",
            ),
        ),
    ),
)


def answer_of(project: Project, root: Path, python: Path) -> dict[str, Any]:
    """What ``unhang check`` says, as JSON, of a launch in the environment of ``python``.

    Raises:
        SystemExit: it says nothing.
    """
    active = {"VIRTUAL_ENV": str(python.parent.parent), "PATH": f"{python.parent}:{os.environ.get('PATH', '')}"}
    words = project.command.format(root=root).split()
    program = [str(Path(sys.executable).with_name("unhang")), "check", "--format", "json", "--", *words]
    done = subprocess.run(
        program,
        cwd=root / project.name / project.folder,
        env={**os.environ, **active, **project.environment, "LC_ALL": "C.UTF-8"},
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


def rows(root: Path, pythons: Mapping[str, str]) -> Iterator[str]:
    """The table's lines, a column for each of ``pythons``: interpreters of the launch by the name of the column.

    ``{name}`` in an interpreter stands for the project.
    """
    yield f"| project | started as | what its report is about | {' | '.join(pythons)} |"
    yield "|---" * (3 + len(pythons)) + "|"
    for project in PROJECTS:
        head = f"{project.report} at `{project.commit}` | `{_shown(project)}`"
        columns = [_column(project, root, Path(python.format(name=project.name))) for python in pythons.values()]
        asked = [wanted.what for wanted in project.wanted]
        for at, what in enumerate((*asked, "findings that stop or slow it, and notes", "what could not be looked at")):
            cells = " | ".join(column[at] for column in columns)
            yield f"| {head if not at else ' | '} | {what} | {cells} |"


def _column(project: Project, root: Path, python: Path) -> list[str]:
    """What stands beside each thing that is wanted, and behind them how much else is said."""
    for needed in (root / project.name, python):
        if not needed.exists():
            return [f"could not look: {needed.name} is not there"] * (len(project.wanted) + 2)
    answer = answer_of(project, root, python.absolute())
    found = answer.get("findings", ())
    stops = sum(one.get("severity") in ("stops", "slows") for one in found)
    told = ["✓" if is_found(wanted, answer) else "✗ not found" for wanted in project.wanted]
    return [*told, f"{stops}, {len(found) - stops}", str(len(answer.get("not_checked", ())))]


def _shown(project: Project) -> str:
    return " ".join((*(f"{k}={v}" for k, v in project.environment.items()), project.command.format(root="..")))


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks real-projects", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="", help="interpreter of the launch; {name} in it is the project")
    told = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as empty:
        venv.create(empty)
        pythons = {"nothing of it installed": f"{empty}/bin/python"}
        if told.python:
            pythons["its pins installed"] = told.python
        for line in rows(told.folder.resolve(), pythons):
            print(line)
    return 0
