"""Parts of a job whose last words or stacks are that they wait, and the circles that they close."""

from __future__ import annotations

from pathlib import Path

from unhang.diagnosis.jobs import diagnose_jobs
from unhang.evidence.inputs import read_evidence
from unhang.facts.worlds.role_waits import role_waits, waits_in_circle
from unhang.findings import Cause

ORCHESTRATOR = """\
12:00:01 [INFO] Starting orchestrator step 121
12:00:02 [INFO] Pausing inference engines for weight update
"""
TRAINER = """\
12:00:00 [INFO] Resuming training from step 121
12:00:03 [DEBUG] Waiting for training batch to arrive
"""
INFERENCE = """\
12:00:00 [INFO] POST /v1/chat/completions 200
12:00:04 [INFO] Receiving weights from trainer
"""


def logs_of(folder: Path, **logs: str) -> list[tuple[str, str]]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return [(wait.waiter, wait.awaited) for wait in role_waits(read_evidence([str(folder)]))]


def test_the_last_words_of_each_part_tell_for_whom_it_waits(tmp_path: Path) -> None:
    found = logs_of(tmp_path, orchestrator=ORCHESTRATOR, trainer=TRAINER, inference=INFERENCE)

    assert sorted(found) == [("driver", "rollout"), ("rollout", "trainer"), ("trainer", "driver")]


def test_a_wait_that_ended_is_none(tmp_path: Path) -> None:
    went_on = TRAINER + "12:00:05 [DEBUG] Waited for batch to arrive for 1.9 seconds\n"

    assert ("trainer", "driver") not in logs_of(tmp_path, orchestrator=ORCHESTRATOR, trainer=went_on)


def test_parts_that_wait_for_each_other_are_a_deadlock_with_its_path(tmp_path: Path) -> None:
    logs_of(tmp_path, orchestrator=ORCHESTRATOR, trainer=TRAINER, inference=INFERENCE)

    (job,) = diagnose_jobs(read_evidence([str(tmp_path)]))

    lead = job.verdict.findings[0]
    assert lead.cause is Cause.DEADLOCK_ORDER
    assert sum("waits for the" in str(text) for text in lead.because) == 3


def test_a_chain_is_no_circle(tmp_path: Path) -> None:
    logs_of(tmp_path, orchestrator=ORCHESTRATOR, trainer=TRAINER, inference="12:00:04 [INFO] POST /v1/chat 200\n")

    assert waits_in_circle(role_waits(read_evidence([str(tmp_path)]))) == ()


ACTOR = """\
Process {pid}: ray::{actor}.fit
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {inside}
    fit (openrlhf/trainer/ppo_trainer_async.py:{line})
    main_loop (ray/_private/worker.py:954)
"""
TAKES = "get (ray/util/queue.py:118)"


def stacks_of(folder: Path, *actors: tuple[str, str, int]) -> Path:
    """A dump of each actor: its class, what it does inside of ``fit``, and the line there."""
    for pid, (actor, inside, line) in enumerate(actors, 4001):
        (folder / f"{actor}-{pid}.txt").write_text(ACTOR.format(pid=pid, actor=actor, inside=inside, line=line))
    return folder


def test_stacks_show_the_circle_and_its_lines(tmp_path: Path) -> None:
    stacks_of(tmp_path, ("TrainingActor", TAKES, 312), ("GenerateSamplesActor", TAKES, 140))

    (job,) = diagnose_jobs(read_evidence([str(tmp_path)]))

    lead = job.verdict.findings[0]
    assert lead.cause is Cause.DEADLOCK_ORDER
    assert lead.where is not None
    assert lead.waiter_where is not None
    assert {lead.where.line, lead.waiter_where.line} == {312, 140}
    assert not any("last words" in str(text) for text in lead.because)


def test_a_part_of_which_one_process_does_anything_else_does_not_wait(tmp_path: Path) -> None:
    works = "step (openrlhf/trainer/ppo_utils/replay_buffer.py:88)"
    stacks_of(tmp_path, ("TrainingActor", TAKES, 312), ("GenerateSamplesActor", works, 90))

    assert [wait.awaited for wait in role_waits(read_evidence([str(tmp_path)]))] == ["rollout"]


def test_a_process_that_was_seen_elsewhere_too_does_not_wait(tmp_path: Path) -> None:
    """Two moments of a job that goes on, in which each half is met at its queue once."""
    for half, line in (("TrainingActor", 312), ("GenerateSamplesActor", 140)):
        pid = 4001 if half == "TrainingActor" else 4002
        for path, inside, at in ((f"{half}-{pid}.0.txt", "step (a.py:1)", 90), (f"{half}-{pid}.1.txt", TAKES, line)):
            (tmp_path / path).write_text(ACTOR.format(pid=pid, actor=half, inside=inside, line=at))

    assert role_waits(read_evidence([str(tmp_path)])) == ()


def test_what_stacks_show_is_later_than_what_was_said(tmp_path: Path) -> None:
    works = "step (openrlhf/trainer/ppo_utils/replay_buffer.py:88)"
    stacks_of(tmp_path, ("PolicyModelActor", works, 312))

    assert ("trainer", "driver") not in logs_of(tmp_path, orchestrator=ORCHESTRATOR, trainer=TRAINER)
