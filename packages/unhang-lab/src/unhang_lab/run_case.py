"""Run one case of the catalogue under ``unhang run`` until it is known what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from unhang.errors import UnhangError, UsageError
from unhang.sentences import say
from unhang_lab.expectation import names_the_cause
from unhang_lab.lab_case import LabCase
from unhang_lab.watched import Tell, watch_case

LIMIT_S = 120.0
HEALTHY_S = 25.0
"""Long enough for the watcher to have asked which rank is the slowest."""


def run_case(
    case: LabCase, folder: Path, *, ranks: int | None = None, backend: str = "gloo", tell: Tell = lambda _: None
) -> Path:
    """Run ``case`` with real processes and leave its run folder at ``folder``, which is returned.

    Args:
        case: from :data:`unhang_lab.lab_case.CASES`.
        folder: holds nothing yet. Its name becomes part of the paths in the evidence.
        ranks: number of ranks; None takes the case's own.
        backend: ``gloo`` (CPU) or ``nccl`` (one GPU a rank).
        tell: is told what happens.

    Raises:
        UsageError: too few ranks for this fault, or a backend it cannot run on.
        UnhangError: the folder is in use, or a process of the job was left over.
        MissingExtra: there is no PyTorch.
    """
    world = case.ranks if ranks is None else ranks
    if world < case.at_least:
        raise UsageError(f"{case.name} needs at least {case.at_least} ranks, not {world}.")
    if backend not in case.backends:
        raise UsageError(f"{case.name} runs on {' or '.join(case.backends)}, not on {backend}.")
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise UnhangError(f"{folder} is not empty; name another folder with --output.")
    tell(say("starting {world} ranks with torchrun ({backend}) under unhang run", world=world, backend=backend))
    endless = case.expected.cause is None and case.moment == "moving"
    with watch_case(case, folder, ranks=world, extra={"TRAIN_BACKEND": backend}) as job:
        tell(say("training"))
        # what an end shows is known, and kept, when it is over
        said = job.wait_for(
            lambda: case.moment != "end" and names_the_cause(job.verdict(), case), HEALTHY_S if endless else LIMIT_S
        )
        if said:
            tell(say("unhang run gave its verdict; the job is still alive"))
        tell(say("ending the job"))
    return folder
