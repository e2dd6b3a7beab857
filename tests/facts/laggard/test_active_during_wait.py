"""The rank that goes on writing while the others wait: only a line that is its own tells so."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.laggard.work_in_lines import active_during_wait

TIMEOUT = (
    "2026-10-09T08:53:20.123Z [rank{rank}]:[E1009 08:53:20.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=12, NumelOut=12, "
    "Timeout(ms)=600000) ran for 600037 milliseconds before timing out.\n"
)
STEP = "2026-10-09T08:40:00.000Z [rank0]: step 2 loss 3.000\n"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank0]: writing the samples", 0),
        ("generated 1790/2048", 0),  # nobody is named, but it is work that counts
        ("collector: rotated the file", None),
    ],
)
def test_a_late_line_is_the_silent_ranks_where_it_says_so(line: str, rank: int | None, tmp_path: Path) -> None:
    late = f"2026-10-09T08:53:18.000Z {line}\n"
    log = tmp_path / "job.log"
    log.write_text(STEP + late + "".join(TIMEOUT.format(rank=waiting) for waiting in (1, 2, 3)))
    found = active_during_wait(build_facts(read_evidence([str(log)])))
    assert (found.rank if found else None) == rank
