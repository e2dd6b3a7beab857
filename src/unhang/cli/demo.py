"""``unhang demo``: watch a real job stall and read why, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder for the evidence; must be empty. [default: unhang-runs/demo-DATE-TIME]")
    ] = None,
    report: Annotated[Path, typer.Option(help="Where the HTML report is written.")] = Path("unhang-report.html"),
) -> None:
    """Run a 4-rank training job that stalls (its split has no seed), say why, write an HTML report."""
    from rich.console import Console

    from unhang.cli.bundle_verdict import print_verdict
    from unhang.cli.lab import new_run_folder
    from unhang.cli.recording_steps import RecordingSteps
    from unhang.lab.demo import record_demo
    from unhang.lab.signals import ended_with_us

    console = Console(stderr=True, highlight=False)
    console.print("A real training job on 4 ranks of this machine (CPU, Gloo). Something is wrong with its data.")
    with RecordingSteps(console) as steps, ended_with_us():
        bundle = record_demo(out or new_run_folder("unhang-runs/demo-"), tell=steps.tell)
    # The verdict is the point of the demo: finding the fault is its success.
    print_verdict(bundle, report=report)
    console.print(
        f"\nreport:   {report.resolve()}\nevidence: {bundle}\nagain:    unhang diagnose {bundle}", soft_wrap=True
    )
