"""Run one case of the catalogue and record it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from unhang.errors import UsageError
from unhang_lab.lab_case import LabCase
from unhang_lab.recorder import RecordingPlan, Tell, record


def run_case(
    case: LabCase, bundle: Path, *, ranks: int | None = None, backend: str = "gloo", tell: Tell = lambda _: None
) -> Path:
    """Run ``case`` with real processes and leave its bundle at ``bundle``.

    Args:
        case: from :data:`unhang_lab.catalog.CASES`.
        bundle: a folder that holds nothing yet. Its name becomes part of the paths in the evidence.
        ranks: number of ranks; None takes the case's own.
        backend: ``gloo`` (CPU) or ``nccl`` (one GPU a rank).
        tell: is told what happens, one short sentence at a time.

    Raises:
        UsageError: too few ranks for this fault, or a backend it cannot run on.
        UnhangError: the job reached neither its moment nor its end.
        MissingExtra: there is no PyTorch.
    """
    world = case.ranks if ranks is None else ranks
    if world < case.at_least:
        raise UsageError(f"{case.name} needs at least {case.at_least} ranks, not {world}.")
    if backend not in case.backends:
        raise UsageError(f"{case.name} runs on {' or '.join(case.backends)}, not on {backend}.")
    with tempfile.TemporaryDirectory(prefix="unhang-case-") as folder:
        # The bundle always shows train.py: a script's name must not give its fault away.
        shutil.copy(case.path, Path(folder) / "train.py")
        plan = RecordingPlan(
            Path(folder),
            ranks=world,
            backend=backend,
            moment=case.moment,
            after=case.after,
            timeout_s=case.timeout_s,
            injection=case.injection,
        )
        return record(plan, bundle, tell=tell)
