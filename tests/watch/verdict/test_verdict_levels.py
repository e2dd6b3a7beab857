"""How loud a verdict is while ranks are still on their way to init_process_group, and which one stands at the end."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.report.localizer import Localizer
from unhang.report.text_serialization import text_from_json
from unhang.watch import end_job
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import kept_evidence
from unhang.watch.verdict.evidence_request import EvidenceRequest, SampleResult, SamplingInterrupted
from unhang.watch.verdict.verdicts import diagnose_run_folder, level_of
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary

IN_INIT = """\
Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    _store_based_barrier (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:1060)
    init_process_group (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:1759)
    main (/job/train.py:9)
"""


def concluded(path: Path, *, waited_s: float, lang: str = "en") -> VerdictSummary:
    """Ranks 0 and 1 of three stand in init_process_group; of rank 2 there is nothing."""
    folder = RunFolder.create(path).path
    for rank in (0, 1):
        for name in (f"rank_{rank}.1.txt", f"rank_{rank}.txt"):
            (folder / "stacks").mkdir(exist_ok=True)
            (folder / "stacks" / name).write_text(IN_INIT.format(pid=100 + rank))
    since_s = time.time() - waited_s
    request = EvidenceRequest(
        1, path, {}, world_size=3, job_outputs={}, stalled_since_s=since_s, waited_s=waited_s, lang=lang
    )
    processes = [{"rank": rank, "pid": 100 + rank, "state": "S", "moving": False} for rank in (0, 1)]
    manifest = {"schema": "unhang.bundle/1", "world_size": 3, "live": True, "processes": processes}
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return diagnose_run_folder(request, SampleResult(taken_s=time.time()), folder)[0]


@pytest.mark.parametrize(("waited_s", "level"), [(8.0, VerdictLevel.WAITING), (31.0, VerdictLevel.STALL)])
def test_a_rank_that_was_not_seen_may_be_starting(waited_s: float, level: VerdictLevel, tmp_path: Path) -> None:
    said = concluded(tmp_path / "run", waited_s=waited_s)

    assert (said.cause, said.ranks, said.level) == ("rendezvous", (2,), level.value)


def test_nobody_ends_a_job_because_a_rank_is_late_to_start(tmp_path: Path) -> None:
    assert concluded(tmp_path / "run", waited_s=31.0).moving


def test_the_users_command_is_given_the_verdict_in_the_language_of_the_run(tmp_path: Path) -> None:
    said = concluded(tmp_path / "run", waited_s=31.0, lang="zh")
    folder, got = RunFolder(tmp_path / "run"), tmp_path / "got.json"
    end_job.run_command(f"cat > {got}.new && mv {got}.new {got}", folder, str(tmp_path))
    deadline = time.monotonic() + 60
    while not got.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert list(end_job.failed_command_lines(folder)) == []

    given = json.loads(got.read_text())
    assert (given["lang"], given["findings"][0]["cause"]) == ("zh", "rendezvous")
    assert given["findings"][0]["summary"] == text_from_json(said.sentence_parts, "", Localizer("zh"))
    assert not folder.verdict.exists()
    kept_evidence.publish(folder.path)
    assert json.loads(folder.verdict.read_text())["findings"][0]["summary"] == said.sentence


def printed(cause: str, certainty: str) -> VerdictSummary:
    """A verdict that was printed as a hang."""
    return VerdictSummary(
        number=1,
        level=VerdictLevel.STALL.value,
        status="hang",
        cause=cause,
        certainty=certainty,
        ranks=(0,),
        where="",
        sentence="",
        stalled_since_s=None,
        limit_at_s=None,
        moving=False,
        settled=False,
        laggard_works=False,
        needs_lines=False,
    )


def at_the_end(path: Path, *, said: tuple[str, str], exit_code: int | None) -> dict[str, Any]:
    """The verdict that stands once a job has ended in a wait of which ``said`` was said; rank 1 with ``exit_code``."""
    folder = RunFolder.create(path).path
    (folder / "verdict.json").write_text(json.dumps({"findings": [{"cause": said[0]}]}))
    processes = [{"rank": rank, "pid": 100 + rank, "host": "vm"} for rank in (0, 1)]
    processes[1]["exit_code"] = exit_code
    (folder / "bundle.json").write_text(json.dumps({"schema": "unhang.bundle/1", "live": True, "world_size": 2}))
    kept_evidence.copy_aside(folder)
    manifest = {"schema": "unhang.bundle/1", "world_size": 2, "live": False, "processes": processes}
    (folder / "bundle.json").write_text(json.dumps(manifest))
    request = EvidenceRequest(
        2, path, {}, world_size=2, job_outputs={}, stalled_since_s=None, live=False, said=printed(*said)
    )
    with suppress(SamplingInterrupted):
        diagnose_run_folder(request, SampleResult(taken_s=time.time()), folder)
    manifest = json.loads((folder / "bundle.json").read_text())
    told: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    return {"cause": told["findings"][0]["cause"], "live": manifest.get("live", False)}


def test_how_a_job_ended_takes_the_place_of_a_doubt(tmp_path: Path) -> None:
    stands = at_the_end(tmp_path / "run", said=("unknown", "likely"), exit_code=-11)

    assert stands == {"cause": "rank-crashed", "live": False}


@pytest.mark.parametrize("said", [("single-rank-work", "likely"), ("unknown", "likely")])
def test_an_end_that_tells_nothing_takes_no_verdict_away(said: tuple[str, str], tmp_path: Path) -> None:
    stands = at_the_end(tmp_path / "run", said=said, exit_code=None)

    assert stands == {"cause": said[0], "live": True}


IN_BARRIER = """\
Process 101: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 101 (idle): "MainThread"
    barrier (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:4159)
    main (/job/train.py:{line})
"""
ASLEEP = """\
Process 100: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 100 (idle): "MainThread"
    poll (/job/train.py:7)
    main (/job/train.py:11)
"""
PROGRAM = """\
import os, time
import torch.distributed as dist

def poll(path):
    while not os.path.exists(path):
        print("not yet", path)
        time.sleep(1)

def main():
    if dist.get_rank() == 0:
        poll("/data/ready")
    dist.barrier()
"""


WORK = PROGRAM.replace("while not os.path.exists(path)", "for part in open(path)")


def look(path: Path, *, idle: bool, program: str = PROGRAM, **request: Any) -> tuple[VerdictSummary, dict[str, Any]]:
    """One look at a job in which rank 1 waits in a barrier for rank 0, which polls for a file."""
    folder = RunFolder.create(path).path if not path.exists() else RunFolder(path).path
    for rank, text in ((0, ASLEEP), (1, IN_BARRIER.format(line=12))):
        for name in (f"rank_{rank}.1.txt", f"rank_{rank}.txt"):
            (folder / "stacks").mkdir(exist_ok=True)
            (folder / "stacks" / name).write_text(text)
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / "train.py").write_text(program)
    processes = [
        {"rank": 0, "pid": 100, "state": "S", "moving": False, "idle": idle},
        {"rank": 1, "pid": 101, "state": "S", "moving": False, "idle": True},
    ]
    now_s = time.time()
    manifest = {
        "schema": "unhang.bundle/1",
        "world_size": 2,
        "live": True,
        "taken_s": now_s,
        "stalled_since_s": now_s - 9.0,
        "source_root": "source",
        "source_prefix": "/job",
        "processes": processes,
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))
    asked = {"waited_s": 9.0, "borne_s": 30.0, **request}
    said = diagnose_run_folder(
        EvidenceRequest(1, path, {}, world_size=2, job_outputs={}, stalled_since_s=now_s - 9.0, **asked),
        SampleResult(taken_s=now_s),
        folder,
    )[0]
    kept_evidence.publish(folder)  # it is said
    return said, json.loads((folder / "verdict.json").read_text())


@pytest.mark.parametrize(
    ("program", "idle", "waited_s", "status", "level"),
    [
        (PROGRAM, True, 9.0, "hang", VerdictLevel.SLOW),
        (PROGRAM, True, 31.0, "hang", VerdictLevel.STALL),
        (PROGRAM, False, 31.0, "hang", VerdictLevel.STALL),  # it asks again and again
        (WORK, True, 31.0, "hang", VerdictLevel.STALL),
        (WORK, False, 31.0, "slow", VerdictLevel.SLOW),
    ],
)
def test_what_a_rank_does_makes_the_status_and_patience_the_level(
    program: str, idle: bool, waited_s: float, status: str, level: VerdictLevel, tmp_path: Path
) -> None:
    said, told = look(tmp_path / "run", idle=idle, program=program, waited_s=waited_s)

    assert (said.cause, said.ranks) == ("single-rank-work", (0,))
    assert (told["status"], said.level) == (status, level.value)
    assert ("rank 0 used neither CPU nor files" in " ".join(told["findings"][0]["because"])) is idle


def test_a_wait_that_ended_before_anything_was_said_of_it_leaves_no_verdict(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run").path
    (kept_evidence.unsaid(folder)).mkdir()
    for name in ("verdict.json", "report.html"):
        (kept_evidence.unsaid(folder) / name).write_text("{}")
    kept_evidence.discard_sample(folder)
    kept_evidence.publish(folder)

    assert not (folder / "verdict.json").exists()
    assert not (folder / "report.html").exists()


FROZEN = Path(__file__).parents[2] / "cases" / "rank-frozen"


@pytest.mark.parametrize(
    ("case", "waited_s", "level"),
    [
        ("hit_a_task_that_died_in_an_event_loop", 9.0, VerdictLevel.SLOW),  # asleep: so is who asks a server
        ("hit_a_task_that_died_in_an_event_loop", 31.0, VerdictLevel.STALL),
        ("hit_attach_lock_while_others_sleep_in_backward", 9.0, VerdictLevel.STALL),  # asleep, with the lock
    ],
)
def test_a_rank_asleep_is_borne_where_it_may_come_by_itself(case: str, waited_s: float, level: VerdictLevel) -> None:
    facts = build_facts(read_evidence([str(FROZEN / case / "input")]))
    request = EvidenceRequest(
        1, FROZEN, {}, world_size=None, job_outputs={}, stalled_since_s=None, waited_s=waited_s, borne_s=30.0
    )
    verdict = diagnose(facts)

    assert verdict.findings[0].cause.value == "rank-frozen"
    assert level_of(verdict, facts, request) is level


def test_a_look_that_tells_less_takes_no_printed_verdict_away(tmp_path: Path) -> None:
    _, before = look(tmp_path / "run", idle=True)
    with pytest.raises(SamplingInterrupted):
        look(tmp_path / "run", idle=True, said=printed("deadlock-order", "certain"))

    assert json.loads((tmp_path / "run" / "verdict.json").read_text()) == before


@pytest.mark.parametrize(("before_steps", "level"), [(True, VerdictLevel.WAITING), (False, VerdictLevel.STALL)])
def test_a_doubt_is_borne_longer_before_the_first_steps(
    before_steps: bool, level: VerdictLevel, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "run").path
    (folder / "stacks").mkdir()
    for rank in (0, 1):
        for name in (f"rank_{rank}.1.txt", f"rank_{rank}.txt"):
            (folder / "stacks" / name).write_text(IN_BARRIER.format(line=12).replace("101", f"{101 + rank}"))
    processes = [{"rank": rank, "pid": 101 + rank, "state": "S", "moving": False} for rank in (0, 1)]
    manifest = {"schema": "unhang.bundle/1", "world_size": 2, "live": True, "processes": processes}
    (folder / "bundle.json").write_text(json.dumps(manifest | {"stalled_since_s": time.time() - 14.0}))
    request = EvidenceRequest(
        1, folder, {}, world_size=2, job_outputs={}, stalled_since_s=None, waited_s=14.0, before_steps=before_steps
    )
    said = diagnose_run_folder(request, SampleResult(taken_s=time.time()), folder)[0]

    assert (said.cause, said.level) == ("unknown", level.value)
