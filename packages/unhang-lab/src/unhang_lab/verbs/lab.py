"""``unhang lab``: run a job with a known fault for real and see what unhang says about it."""

from __future__ import annotations

import enum
import time
from pathlib import Path
from typing import Annotated

import typer


def lab() -> None:
    """Run real jobs with a known fault and check the verdict.

    Examples:
    unhang lab list
    unhang lab run split-without-seed
    """


app = typer.Typer(callback=lab, no_args_is_help=True)


class Backend(str, enum.Enum):
    """What carries the collectives."""

    GLOO = "gloo"
    NCCL = "nccl"


@app.command(name="list")
def list_cases() -> None:
    """List the cases and what is wrong in each.

    Examples:
    unhang lab list
    """
    from rich.padding import Padding

    from unhang.report.layout.console import Console
    from unhang_lab.lab_case import CASES

    console = Console(highlight=False)
    for case in CASES:
        cause = case.expected.cause
        console.print(f"[bold]{case.name}[/bold] [dim]→ {cause.value if cause is not None else 'healthy'}[/dim]")
        console.print(Padding(case.what, (0, 0, 0, 4)), markup=False)
    console.print("\nRun one with: unhang lab run NAME", markup=False)


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Case from `unhang lab list`.")],
    ranks: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of ranks; default: the case's own.")
    ] = None,
    backend: Annotated[Backend, typer.Option(help="gloo runs on CPUs; nccl needs one GPU per rank.")] = Backend.GLOO,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Run folder; default: lab-runs/TIME.")
    ] = None,
) -> None:
    """Run a case under `unhang run`; print its run folder and the verdict.

    Examples:
    unhang lab run split-without-seed
    """
    from unhang.cli.output.verdict_output import exit_code
    from unhang.report.layout.console import Console
    from unhang_lab.expectation import find_mistakes
    from unhang_lab.lab_case import find_case
    from unhang_lab.run_case import run_case
    from unhang_lab.verbs.recording import RecordingSteps, interrupt_on_termination, print_verdict

    case = find_case(name)
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]{case.name}[/bold]: {case.what}")
    folder = output or new_run_folder("lab-runs/")
    with RecordingSteps() as steps, interrupt_on_termination():
        bundle = run_case(case, folder, ranks=ranks, backend=backend.value, tell=steps.tell)
    if case.expected.cause is None and not (bundle / "verdict.json").exists():
        console.print("unhang run reported nothing, as expected.")
        raise typer.Exit(0)
    verdict = print_verdict(bundle)
    console.print(f"\nevidence: {bundle}", soft_wrap=True)
    wrong = find_mistakes(case, bundle, verdict, watched=True)
    console.print("The verdict is right." if not wrong else "The verdict is wrong:")
    for sentence in wrong:
        console.print(f"  {sentence}", soft_wrap=True)
    raise typer.Exit(exit_code(verdict))


def new_run_folder(prefix: str) -> Path:
    """A fresh folder whose name says nothing about the fault: it becomes part of the paths in the evidence."""
    return Path(prefix + time.strftime("%Y%m%d-%H%M%S"))
