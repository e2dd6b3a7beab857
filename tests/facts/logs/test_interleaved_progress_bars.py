"""The same bar with several lengths at a time is several ranks; one after the other it is several epochs."""

from __future__ import annotations

from pathlib import Path

from unhang.evidence.inputs import read_evidence
from unhang.facts.logs.interleaved_progress_bars import InterleavedBars, interleaved_bars


def bars(folder: Path, *steps: tuple[int, int]) -> InterleavedBars | None:
    text = "\r".join(f"Training: {100 * n // total}%|██   | {n}/{total} [00:01<00:02, 9.00it/s]" for n, total in steps)
    (folder / "job.log").write_text(text + "\n", encoding="utf-8", newline="")
    return interleaved_bars(read_evidence([str(folder / "job.log")]).logs)


def test_two_lengths_that_go_on_in_turn_run_at_once(tmp_path: Path) -> None:
    found = bars(tmp_path, (1, 3), (1, 5), (2, 3), (2, 5), (3, 3), (3, 5))

    assert found is not None
    assert found.told == "3/3, 3/5"
    assert found.one_is_done
    assert found.evidence.text.startswith("Training: 60%")


def test_where_none_has_come_to_its_end_nobody_left(tmp_path: Path) -> None:
    found = bars(tmp_path, (1, 30), (1, 50), (2, 30), (2, 50), (3, 30), (3, 50))

    assert found is not None
    assert not found.one_is_done


def test_epochs_one_after_the_other_are_one_process(tmp_path: Path) -> None:
    assert bars(tmp_path, *((n, 3) for n in range(4)), *((n, 5) for n in range(6)), *((n, 3) for n in range(4))) is None


def test_a_broken_line_leaves_the_end_of_a_label(tmp_path: Path) -> None:
    bar = "{label}: 9%|#   | {n}/{total} [00:01<00:02, 9.00it/s]"
    steps = [("Training set", 1, 3), ("Training set", 1, 5), ("Training set", 2, 3), ("Training set", 2, 5)]
    torn = [("aining set", 3, 3), ("Training set", 3, 5)]
    content = "\n".join(bar.format(label=label, n=n, total=total) for label, n, total in (*steps, *torn))
    (tmp_path / "job.log").write_text(content + "\n", encoding="utf-8")

    found = interleaved_bars(read_evidence([str(tmp_path / "job.log")]).logs)

    assert found is not None
    assert found.one_is_done
