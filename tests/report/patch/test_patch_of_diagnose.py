"""What a run left leads to the file on the disk, as long as it is the one that ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import case_writer
from tests.case_writer import Job
from tests.report.patch.patching import apply
from unhang.cli.main import main

SAVES = """
import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for batch in make_loader():
        loss = step(batch)
        dist.all_reduce(loss)
        if rank == 0:
            save(loss)
            dist.barrier()  # saved


main()
"""
SPLITS = """
import torch.distributed as dist


def main():
    part = rows.train_test_split(test_size=0.1)["train"]
    loader = make_loader(part)
    for batch in loader:
        loss = step(batch)
        dist.all_reduce(loss)
    dist.barrier()


main()
"""
STEP = "dist.all_reduce(loss)"


def left_by(program: str, at: str, alone: tuple[int, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run folder of a job of four ranks of which ``alone`` are in the barrier ``at``, and the others in a step.

    The program lies in ``folder``, where the tests are.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setattr(case_writer, "PROGRAM", str(folder / "train.py"))
    job = Job(program, 4, backend="gloo")
    others = tuple(rank for rank in range(4) if rank not in alone)
    job.history(range(4), 40, STEP)
    job.call(others, 41, "all_reduce", STEP, open=True)
    job.call(alone, 41, "barrier", at, open=True, size=(1,))
    job.dump(0, 1, 2, 3)
    job.waits(others, "all_reduce", STEP)
    job.waits(alone, "barrier", at)
    for name, content in job.inputs().items():
        path = folder / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "train.py").write_text(job.program)
    return folder / "run"


def answer(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(list(map(str, words)))
    said = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, said.out, said.err


@pytest.mark.parametrize(
    ("program", "at", "alone", "made"),
    [
        (SAVES, "dist.barrier()  # saved", (0,), SAVES.replace("            dist.barrier", "        dist.barrier")),
        (SPLITS, "dist.barrier()", (3,), SPLITS.replace("test_size=0.1", "test_size=0.1, seed=42")),
    ],
    ids=["branch", "seed"],
)
def test_the_line_that_the_stacks_lead_to(
    program: str,
    at: str,
    alone: tuple[int, ...],
    made: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = left_by(program, at, alone, tmp_path, monkeypatch)
    code, report, _ = answer(capsys, "diagnose", run)

    patched, text, _ = answer(capsys, "diagnose", run, "--patch", "--output", tmp_path / "fix.patch")

    assert (code, patched) == (1, 1)
    assert "train.py" in report
    assert text == ""
    apply((tmp_path / "fix.patch").read_text(), tmp_path)
    assert (tmp_path / "train.py").read_text() == made.lstrip("\n")


def test_a_program_that_is_another_one_now_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = left_by(SPLITS, "dist.barrier()", (3,), tmp_path, monkeypatch)
    (tmp_path / "train.py").write_text(SPLITS + "# later\n")

    code, text, _ = answer(capsys, "diagnose", run, "--patch")

    assert code == 1
    assert "@@" not in text
    assert "has changed since it was read" in text


def test_a_program_of_another_project_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = left_by(SPLITS, "dist.barrier()", (3,), tmp_path, monkeypatch)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")

    _, text, _ = answer(capsys, "diagnose", run, "--patch")

    assert "@@" not in text
    assert "is outside this project: ask again in its own folder" in text


def test_a_log_alone_says_that_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.\n")
    code, _, _ = answer(capsys, "diagnose", "job.log")

    asked, text, _ = answer(capsys, "diagnose", "job.log", "--patch")

    assert asked == code
    assert text == "# No patch: no fix here is a single, certain edit.\n"
