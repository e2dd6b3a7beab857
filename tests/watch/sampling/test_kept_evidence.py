"""A look that is ended half-way costs neither the job nor the evidence of the look before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unhang.watch import private_files
from unhang.watch.process_state.stack_collection import sample_kernel
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import kept_evidence
from unhang.watch.side_process import ForkedChild
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.watch.verdict.evidence_request import EvidenceRequest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run folder with the evidence of one look."""
    made = RunFolder.create(tmp_path / "run")
    for name in ("dumps/rank_0", "stacks/rank_0.txt", "source/train.py", "bundle.json", "verdict.json"):
        path = made.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("first look")
    return made


def parts(folder: RunFolder) -> dict[str, str]:
    return {
        str(path.relative_to(folder.path)): path.read_text()
        for path in folder.path.rglob("*")
        if path.is_file() and ".unhang" not in path.parts
    }


def look_again(folder: RunFolder) -> None:
    kept_evidence.set_dumps_aside(folder.path)
    (folder.path / "dumps" / "rank_0").write_text("half a look")


def test_a_look_that_comes_to_nothing_puts_the_one_before_back(folder: RunFolder) -> None:
    before = parts(folder)
    look_again(folder)
    kept_evidence.restore(folder.path)

    assert parts(folder) == before


def test_also_when_it_was_ended_just_before_its_verdict(folder: RunFolder) -> None:
    before = parts(folder)
    look_again(folder)
    kept_evidence.set_rest_aside(folder.path)
    (folder.path / "stacks").mkdir()
    (folder.path / "stacks" / "rank_0.txt").write_text("half a look")
    (folder.path / "bundle.json").write_text("half a look")
    (folder.path / "verdict.json").write_text("half a look")
    kept_evidence.restore(folder.path)

    assert parts(folder) == before


def test_what_a_finished_look_found_stays(folder: RunFolder) -> None:
    look_again(folder)
    kept_evidence.set_rest_aside(folder.path)
    kept_evidence.discard(folder.path)
    kept_evidence.restore(folder.path)

    first = "first look"
    assert parts(folder) == {"dumps/rank_0": "half a look", "bundle.json": first, "verdict.json": first}


@pytest.fixture
def rank() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as sleeper:
        try:
            yield sleeper.pid
        finally:
            sleeper.kill()


@pytest.mark.parametrize(("before", "after"), [("S", "S"), ("T", "T")])
def test_a_rank_that_was_held_when_its_look_was_ended_goes_on(
    before: str, after: str, rank: int, folder: RunFolder
) -> None:
    child = ForkedChild(lambda: time.sleep(60))
    os.kill(rank, signal.SIGSTOP)
    deadline = time.monotonic() + 60
    while sample_kernel(rank).state != "T" and time.monotonic() < deadline:
        time.sleep(0.01)

    request = EvidenceRequest(1, folder.path, {}, world_size=1, job_outputs={}, stalled_since_s=None)
    DiagnosisChild(request, folder, child, {rank: before}).end()

    while sample_kernel(rank).state != after and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sample_kernel(rank).state == after


def test_what_ranks_left_as_they_fell_stays_without_any_look_before(tmp_path: Path) -> None:
    made = RunFolder.create(tmp_path / "run")
    for rank in (0, 1):
        (made.path / "dumps" / f"rank_{rank}").write_text("as it fell")

    kept_evidence.set_dumps_aside(made.path)
    (made.path / "dumps" / "rank_1").write_text("asked for")
    kept_evidence.restore(made.path)

    assert parts(made) == {"dumps/rank_0": "as it fell", "dumps/rank_1": "asked for"}


def test_a_look_at_the_living_keeps_the_dumps_of_the_dead(tmp_path: Path) -> None:
    made = RunFolder.create(tmp_path / "run")
    for rank in (0, 1):
        (made.path / "dumps" / f"rank_{rank}").write_text("as it fell")

    kept_evidence.set_dumps_aside(made.path)
    kept_evidence.restore_dumps(made.path, [0])
    kept_evidence.discard(made.path)

    assert parts(made) == {"dumps/rank_0": "as it fell"}


def fall(folder: RunFolder) -> None:
    """A rank that falls writes its dump anew, and how it fell."""
    private_files.write_atomically(folder.path / "dumps" / "rank_0", b"as it fell")
    private_files.write(folder.path / "crash" / "rank_0.except", b"KeyboardInterrupt")


def test_who_cannot_answer_now_is_told_by_what_it_wrote_during_this_wait(tmp_path: Path) -> None:
    dumps = RunFolder.create(tmp_path / "run").path / "dumps"
    dumps.mkdir(exist_ok=True)
    now_s = time.time()
    for rank, before_s in ((0, 5.0), (1, 5.0), (2, 50.0)):
        (dumps / f"rank_{rank}").write_text(f"{before_s} s ago")
        os.utime(dumps / f"rank_{rank}", (now_s - before_s, now_s - before_s))
    kept_evidence.set_dumps_aside(tmp_path / "run")
    (dumps / "rank_0").write_text("now")

    kept_evidence.restore_dumps(tmp_path / "run", (0, 1, 2), since_s=now_s - 20.0)

    assert {path.name: path.read_text() for path in dumps.iterdir()} == {"rank_0": "now", "rank_1": "5.0 s ago"}


def test_a_job_ended_by_hand_leaves_what_its_verdict_rests_on(folder: RunFolder) -> None:
    (folder.path / "bundle.json").write_text('{"schema": "unhang.bundle/1", "live": true}')
    before = parts(folder)
    kept_evidence.save_judged(folder.path)
    fall(folder)
    kept_evidence.restore_judged_if_live(folder.path)

    assert parts(folder) == before
    assert not (folder.path / ".unhang" / "judged").exists()


def test_a_verdict_on_the_end_keeps_what_ranks_left_there(folder: RunFolder) -> None:
    (folder.path / "bundle.json").write_text('{"schema": "unhang.bundle/1", "live": true}')
    kept_evidence.save_judged(folder.path)
    fall(folder)
    (folder.path / "bundle.json").write_text('{"schema": "unhang.bundle/1", "live": false}')
    kept_evidence.restore_judged_if_live(folder.path)

    assert parts(folder)["dumps/rank_0"] == "as it fell"
    assert "crash/rank_0.except" in parts(folder)


def test_the_dumps_of_the_look_before_stay_too(tmp_path: Path) -> None:
    """Looks at a job that moves lay the earlier dump of each rank beside the newest."""
    private_files.write(tmp_path / "bundle.json", b'{"schema": "unhang.bundle/1", "live": true}')
    private_files.write(tmp_path / "dumps" / "rank_0", b"new")
    private_files.write(tmp_path / "dumps" / "earlier" / "rank_0", b"old")

    kept_evidence.save_judged(tmp_path)
    kept_evidence.restore_judged_if_live(tmp_path)

    assert (tmp_path / "dumps" / "earlier" / "rank_0").read_bytes() == b"old"
