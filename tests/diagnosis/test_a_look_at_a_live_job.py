"""What a bundle of a job that lived on adds: how near its limit was, and whose stack nobody could see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Certainty, Status, Verdict
from unhang_lab.dump_writer import make_dump, make_entry, pickle_like_torch

START_S = 1_700_000_000.0
LIMIT_S = 120.0
WORKS = """\
Process 100: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 100 (active): "MainThread"
    save (/venv/lib/python3.11/site-packages/torch/serialization.py:{line})
    checkpoint (/job/train.py:12)
    main (/job/train.py:30)
"""
WAITS = """\
Process 101: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 101 (idle): "MainThread"
    barrier (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:5356)
    main (/job/train.py:31)
"""


PROGRAM = [""] * 31
PROGRAM[9:12] = ["def checkpoint(model):", "    if dist.get_rank() == 0:", "        torch.save(model, 'm.pt')"]
PROGRAM[26:30] = ["def main():", "    for step in range(9):", "        train(step)", "        checkpoint(model)"]
PROGRAM[30] = "        dist.barrier()"


def verdict_of(folder: Path, *, taken_after_s: float, live: bool = True, **of_rank_0: Any) -> Verdict:
    """Rank 0 saves while rank 1 waits in a barrier since ``START_S``."""
    (folder / "stacks").mkdir(parents=True)
    (folder / "dumps").mkdir()
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text("\n".join(PROGRAM))
    for name, line in (("rank_0.1.txt", 940), ("rank_0.txt", 941)):
        (folder / "stacks" / name).write_text(WORKS.format(line=line))
    for name in ("rank_1.1.txt", "rank_1.txt"):
        (folder / "stacks" / name).write_text(WAITS)
    for rank, calls in ((0, ["all_reduce"]), (1, ["all_reduce", "barrier"])):
        (folder / "dumps" / f"rank_{rank}").write_bytes(_dump(calls))
    manifest = {
        "schema": "unhang.bundle/1",
        "world_size": 2,
        "backend": "gloo",
        "stalled_since_s": START_S,
        "taken_s": START_S + taken_after_s,
        "live": live,
        "source_root": "source",
        "source_prefix": "/job",
        "processes": [
            {"rank": 0, "pid": 100, "state": "R", "moving": True, **of_rank_0},
            {"rank": 1, "pid": 101, "state": "S", "moving": False},
        ],
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return diagnose(build_facts(read_evidence([str(folder)])))


def _dump(calls: list[str]) -> bytes:
    entries = [
        make_entry(
            position=number,
            operation=f"gloo:{operation}",
            state="completed" if operation == "all_reduce" else "scheduled",
            sizes=((8,),),
            dtype="Float",
            group=("0", "default_pg"),
            pg_id=0,
            frames=[],
            is_p2p=False,
            record_id=number - 1,
            created_ns=int(START_S * 1e9),
            timeout_ms=int(LIMIT_S * 1000),
        )
        for number, operation in enumerate(calls, start=1)
    ]
    status = {"0": (len(calls), -1, 1)}
    return pickle_like_torch(make_dump("2.13", entries, groups={"0": ("default_pg", [0, 1])}, status=status))


@pytest.mark.parametrize(
    ("taken_after_s", "live", "status"),
    [(3.0, True, Status.SLOW), (115.0, True, Status.HANG), (3.0, False, Status.HANG)],
    ids=["far from the limit", "near the limit", "the job was ended after the look"],
)
def test_work_of_one_rank_is_slow_until_the_others_limit_is_near(
    taken_after_s: float, live: bool, status: Status, tmp_path: Path
) -> None:
    verdict = verdict_of(tmp_path / "run", taken_after_s=taken_after_s, live=live)

    assert verdict.findings[0].cause.value == "single-rank-work"
    assert verdict.status is status
    assert verdict.restart.advice == "after-change"
    assert ("as slow again" in str(verdict.restart.because)) is (status is Status.SLOW)


@pytest.mark.parametrize(
    ("reason", "how"),
    [
        ("py-spy is not installed", "pip install py-spy"),
        ("looking into it needs SYS_PTRACE", "sudo py-spy dump --pid 100"),
    ],
)
def test_a_stack_that_its_record_names_makes_nothing_certain(reason: str, how: str, tmp_path: Path) -> None:
    seen = verdict_of(tmp_path / "seen", taken_after_s=3.0)
    blind = verdict_of(tmp_path / "blind", taken_after_s=3.0, not_seen=reason, from_record=True)

    assert seen.findings[0].certainty is Certainty.CERTAIN
    assert blind.findings[0].certainty is Certainty.LIKELY
    assert blind.findings[0].where == seen.findings[0].where
    assert [gap.how for gap in blind.not_checked if gap.how.startswith(how)]


def test_where_ranks_are_numbered_by_guess_nothing_is_certain(tmp_path: Path) -> None:
    told = verdict_of(tmp_path / "told", taken_after_s=30.0)
    guessed = verdict_of(tmp_path / "guessed", taken_after_s=30.0, guessed_rank=True)

    assert told.findings[0].certainty is Certainty.CERTAIN
    assert guessed.findings[0].certainty is Certainty.LIKELY
    assert "which process is which rank" in [str(gap.what) for gap in guessed.not_checked]
