"""What other tools say of a job is evidence, and named as theirs: torch's dump analyser as it runs here, NVIDIA's as it
printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_better_than_peers import a_laggard, a_mismatch, verdict, write

ANALYSER = "torch.distributed.flight_recorder.fr_trace"
NVIDIA = """INFO:__main__:PGID   | Process Group Desc        | Op Type    | Size                                 | Dtype    | Missing Ranks
INFO:__main__:0      | default_pg,0              | nccl:all_reduce | 8                                            | Float    | 2
"""  # noqa: E501
"""Of ``a_laggard(2)``, by nvidia_resiliency_ext/attribution/trace_analyzer/fr_attribution.py of August 2026."""


@pytest.mark.parametrize(
    ("job", "cause"), [(a_mismatch, "collective-mismatch"), (a_laggard, "unknown")], ids=["mismatch", "laggard"]
)
def test_a_rank_that_the_dump_analyser_names(tmp_path: Path, job: Any, cause: str) -> None:
    write(tmp_path / "dumps", job(2))
    command = [sys.executable, "-m", ANALYSER, str(tmp_path / "dumps"), "-p", "nccl_trace_rank_"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    log = tmp_path / "analysis.log"
    log.write_text(ran.stdout + ran.stderr)

    first = verdict(log)[1]["findings"][0]

    assert (first["cause"], first["ranks"]) == (cause, [2])
    assert first["certainty"] != "certain"


def test_a_rank_that_nvidias_analysis_names(tmp_path: Path) -> None:
    log = tmp_path / "analysis.log"
    log.write_text(NVIDIA)

    first = verdict(log)[1]["findings"][0]

    assert first["ranks"] == [2]
    assert "NVIDIA" in first["summary"]
