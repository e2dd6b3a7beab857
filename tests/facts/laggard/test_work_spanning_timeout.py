"""Work that spans the others' limit: one bar's clock, or those of all bars that its speaker had filled before."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.laggard.work_in_lines import SpanningWork, absent_rank, spanning_work
from unhang.facts.logs.waits_in_logs import logged_waits

CASES = Path(__file__).parents[2] / "cases" / "unknown"

TIMEOUT = (
    "[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={at}, "
    "OpType=ALLREDUCE{shape}, Timeout(ms)=1800000) ran for 1800402 milliseconds before timing out.\n"
)


def timeouts(at: int = 1, shape: str = "") -> str:
    return "".join(TIMEOUT.format(rank=rank, at=at, shape=shape) for rank in (1, 2, 3))


def work_in(tmp_path: Path, text: str) -> SpanningWork | None:
    log = tmp_path / "job.log"
    log.write_text(text)
    return spanning_work(build_facts(read_evidence([str(log)])))


@pytest.mark.parametrize(
    ("filtered", "mapped", "minutes"),
    [
        ("03:31", "25:00", 28.5),  # 90 s before the limit of half an hour
        ("03:28", "25:00", None),
        ("09:00", "25:29", 34.5),  # 15 % behind it
        ("09:00", "25:31", None),
    ],
)
def test_bars_of_one_speaker_are_one_work(filtered: str, mapped: str, minutes: float | None, tmp_path: Path) -> None:
    work = work_in(
        tmp_path,
        f"Filter: 100%|####| 800/800 [{filtered}<00:00, 4.0 examples/s]\n"
        f"Map:  91%|### | 730/800 [{mapped}<02:00, 4.0 examples/s]\n" + timeouts(),
    )

    assert (work is not None) == (minutes is not None)
    if work is not None and minutes is not None:
        assert (work.rank, work.label, work.done) == (0, "Filter, Map", 730)
        assert work.elapsed_s / 60 == pytest.approx(minutes, abs=0.05)


def test_a_bar_that_was_not_filled_before_is_no_part_of_it(tmp_path: Path) -> None:
    begun = "Filter:  50%|## | 400/800 [03:40<03:40, 4.0 examples/s]\n"
    assert work_in(tmp_path, begun + "Map:  91%|### | 730/800 [25:00<02:00, 4.0 examples/s]\n" + timeouts()) is None


@pytest.mark.parametrize(("step", "cause"), [("", "single-rank-work"), ("step 40 loss 2.5\n", "unknown")])
def test_a_barrier_before_any_step_waits_for_who_prepares(step: str, cause: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(step + timeouts(at=7, shape=", NumelIn=1, NumelOut=1"))

    assert diagnose(build_facts(read_evidence([str(log)]))).findings[0].cause.value == cause


@pytest.mark.parametrize("case", ["hit_log_of_one_node_only", "hit_log_of_one_node_without_one_rank"])
def test_in_the_log_of_another_node_rank_0_is_not_the_absent_one(case: str) -> None:
    facts = build_facts(read_evidence([str(CASES / case / "input")]))

    assert absent_rank(facts, logged_waits(facts)) is None
