"""Jobs of several worlds come apart into worlds; whatever may be of one stays together."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.diagnosis.jobs import diagnose_jobs
from unhang.evidence.inputs import read_evidence
from unhang.facts.worlds.worlds_of_job import WorldFiles, worlds_of
from unhang.findings import Cause, Verdict

TRAINERS = "".join(f"(ActorModelRayActor pid={800 + r}) [rank{r}]: step 12 loss 0.71\n" for r in range(2))
ENGINE = """\
(LLMRayActor pid=910) Traceback (most recent call last):
(LLMRayActor pid=910)   File "/job/rollout.py", line 180, in wake_up
(LLMRayActor pid=910)     create_and_map(handle)
(LLMRayActor pid=910) ValueError: no handle 7
"""
DRIVER = """\
Traceback (most recent call last):
  File "/job/train_ppo.py", line 40, in main
    ray.get(refs)
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: LLMRayActor
\tpid: 910
"""


def worlds(folder: Path, **logs: str) -> tuple[WorldFiles, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return worlds_of(read_evidence([str(folder)]))


def verdict_on(folder: Path, text: str) -> Verdict:
    (folder / "driver.log").write_text(text)
    (job,) = diagnose_jobs(read_evidence([str(folder)]))
    return job.verdict


def test_trainers_and_engines_are_two_worlds_and_the_driver_is_the_trainers(tmp_path: Path) -> None:
    first, other = worlds(tmp_path, driver=TRAINERS + ENGINE + DRIVER)

    assert (first.id, first.programs) == ("trainer", ("ActorModelRayActor",))
    assert (other.id, other.programs) == ("rollout", ("LLMRayActor",))
    assert [t.exception for log in first.evidence.logs for t in log.tracebacks] == ["ray.exceptions.ActorDiedError"]
    assert [t.exception for log in other.evidence.logs for t in log.tracebacks] == ["ValueError"]
    assert [log.ranks for log in first.evidence.logs] == [(0, 1)]


def test_a_job_of_trainers_alone_or_of_engines_alone_is_one_world(tmp_path: Path) -> None:
    (alone,) = worlds(tmp_path, driver=TRAINERS + DRIVER)
    assert (alone.id, alone.row) == ("", None)

    (alone,) = worlds(tmp_path, driver=ENGINE + DRIVER)
    assert alone.id == ""


def test_the_world_that_failed_leads_and_the_others_errors_follow(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, TRAINERS + ENGINE + DRIVER)

    lead = verdict.findings[0]
    assert (lead.cause, lead.world) == (Cause.RANK_CRASHED, "rollout")
    assert [world.id for world in verdict.worlds] == ["trainer", "rollout"]
    assert [(edge.waiter, edge.awaited) for edge in verdict.edges] == [("trainer", "rollout")]


def test_one_world_says_nothing_of_worlds(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, TRAINERS)

    assert verdict.worlds == verdict.edges == ()
    assert all(not finding.world for finding in verdict.findings)


GROUP = "(LLMRayActor pid=910) init_process_group: master_port=40871, rank=1, world_size=9, group_name=openrlhf\n"


def test_the_size_of_a_group_with_a_name_is_not_that_of_the_job(tmp_path: Path) -> None:
    first, *_ = worlds(tmp_path, driver=TRAINERS + GROUP)

    assert [size for log in first.evidence.logs for size in log.sizes] == []


MEMORY = """\
{prefix}Traceback (most recent call last):
{prefix}  File "/venv/lib/python3.11/site-packages/{package}/device_allocator/cumem.py", line 75, in create_and_map
{prefix}    python_create_and_map(*allocation_handle)
{prefix}RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62
"""


@pytest.mark.parametrize(
    ("prefix", "package", "advised"),
    [
        ("(Worker_TP0 pid=910) ", "torch", "the engine"),
        ("", "vllm", "the engine"),
        ("", "torch", "per step"),
        ("(ActorModelRayActor pid=800) ", "torch", "per step"),
    ],
)
def test_an_engine_without_memory_gets_the_engines_switches(
    prefix: str, package: str, advised: str, tmp_path: Path
) -> None:
    told = verdict_on(tmp_path, MEMORY.format(prefix=prefix, package=package))

    assert told.findings[0].cause is Cause.GPU_OOM
    assert advised in str(told.findings[0].remedies[0].title)
