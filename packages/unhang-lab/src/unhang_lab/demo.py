"""The demo: a real job of four ranks that stalls because its data are split without a seed."""

from __future__ import annotations

from pathlib import Path

from unhang_lab.catalog import find_case
from unhang_lab.recorder import Tell
from unhang_lab.run_case import run_case

DEMO_CASE = "split-without-seed"
DEMO_RANKS = 4


def record_demo(bundle: Path, *, tell: Tell = lambda _: None) -> Path:
    """Train for real until the ranks wait for each other, and leave the evidence at ``bundle``.

    Raises:
        MissingExtra: there is no PyTorch.
        UnhangError: the job did not stall (a machine under extreme load), or the folder is in use.
    """
    return run_case(find_case(DEMO_CASE), bundle, ranks=DEMO_RANKS, tell=tell)
