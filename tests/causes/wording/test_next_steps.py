"""Whom to ask: by whether the job still runs, and by the program that runs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from unhang.causes.wording.next_steps import inspect_all, inspect_ranks, stack_commands, tell_kernel_from_transport
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.endings.good_endings import is_job_over
from unhang.facts.model import Facts
from unhang.findings import Remedy, Source
from unhang.knowledge.messages import message_row
from unhang.wire.documents.bundle import BundleManifest, RankProcess

WAITS, DOWN, CHILD_FAILED = (message_row(kind).example for kind in ("wd.timeout", "wd.down", "te.childfailed"))

VLLM = "INFO 04-29 08:12:04 [config.py:1578] Defaulting to use mp for distributed inference"

DEEPSPEED = (
    "[2025-04-23 23:41:10,118] [INFO] [comm.py:669:init_distributed] "
    "Initializing TorchBackend in DeepSpeed with backend nccl"
)


def facts_of(folder: Path, *lines: str) -> Facts:
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return build_facts(read_evidence([str(folder / "job.log")]))


def looked_at(facts: Facts, *processes: RankProcess, live: bool) -> Facts:
    manifest = BundleManifest(source=Source("bundle.json"), processes=processes, live=live, taken_s=1.0)
    return replace(facts, manifests=(manifest,))


def titles(remedies: Iterable[Remedy]) -> list[str]:
    return [str(remedy.title) for remedy in remedies]


@pytest.mark.parametrize(("line", "over"), [(WAITS, None), (DOWN, True), (CHILD_FAILED, True)])
def test_a_log_tells_that_the_job_is_over_or_tells_nothing(tmp_path: Path, line: str, over: bool | None) -> None:
    assert is_job_over(facts_of(tmp_path, line)) is over


def test_who_looked_at_living_ranks_knows(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, CHILD_FAILED)

    assert is_job_over(looked_at(facts, RankProcess(rank=0), live=True)) is False
    assert is_job_over(looked_at(facts, RankProcess(rank=0), live=False)) is None
    assert is_job_over(looked_at(facts, RankProcess(rank=0, exit_code=1), live=False)) is True


def test_of_a_job_that_is_over_no_stack_is_asked_for(tmp_path: Path) -> None:
    over, unknown = facts_of(tmp_path, WAITS, DOWN), facts_of(tmp_path, WAITS)

    assert titles(inspect_ranks(over, (2,))) == ["Get the log of rank 2"]
    assert titles(inspect_ranks(unknown, (2,))) == [
        "Get the log of rank 2",
        "Take the stack of rank 2 while the job is stuck",
    ]
    assert titles(inspect_ranks(over, (1,))) == ["Start the next run with unhang run -- torchrun …"], (
        "its lines were read"
    )
    assert titles(tell_kernel_from_transport(over, over.ranks)) == ["Record in the next run which calls started"]


def test_of_a_living_job_nothing_else_is_asked_for(tmp_path: Path) -> None:
    live = looked_at(facts_of(tmp_path, WAITS), live=True)

    assert titles(inspect_ranks(live, (2,))) == ["Take the stack of rank 2 while the job is stuck"]
    assert titles(inspect_all(live)) == ["Collect per-rank evidence while the job is stuck"]


def test_each_process_has_a_command_of_its_own(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, WAITS)
    known = next(iter(facts.ranks.values()))
    ranks = {rank: replace(known, rank=rank, pid=100 + rank) for rank in (1, 2)}

    assert stack_commands(replace(facts, ranks=ranks), (1, 2)) == "py-spy dump --pid 101; py-spy dump --pid 102"
    assert stack_commands(facts, (1, 7)) == "unhang attach"


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        ((WAITS, DOWN), "Start the next run with unhang run -- torchrun …"),
        ((message_row("ray.died").example,), "Read the log files of Ray's workers"),
        ((message_row("slurm.cancel").example,), "Ask Slurm how each task ended"),
        ((message_row("k8s.evicted").example,), "Ask Kubernetes how each pod ended"),
        ((VLLM,), "Make the next run of vLLM log what each worker does"),
        ((VLLM, WAITS), "Make the next run of vLLM log what each worker does"),
        ((VLLM, DEEPSPEED), "Start the next run with unhang run -- COMMAND"),
        ((VLLM, "+ torchrun --nproc-per-node=4 train.py"), "Start the next run with unhang run -- torchrun …"),
        (("step 1 loss 3.0",), "Start the next run with unhang run -- COMMAND"),
    ],
)
def test_whom_to_ask_depends_on_the_program(tmp_path: Path, lines: tuple[str, ...], title: str) -> None:
    assert titles(inspect_all(facts_of(tmp_path, *lines)))[0] == title
