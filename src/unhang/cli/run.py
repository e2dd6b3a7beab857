"""``unhang run -- CMD…``: run a training command and say within seconds why it stalls."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from unhang.cli.options import Language
from unhang.errors import UsageError


class OnHang(str, enum.Enum):
    """What to do with a job that stalls."""

    REPORT = "report"
    ABORT = "abort"


def run(
    command: Annotated[list[str], typer.Argument(metavar="CMD…", help="Training command, as you would type it.")],
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Folder for verdict and evidence; default: unhang-runs/TIME."),
    ] = None,
    on_hang: Annotated[
        OnHang, typer.Option(help="report: leave the job running; abort: end it once the evidence is saved.")
    ] = OnHang.REPORT,
    on_hang_exec: Annotated[
        str, typer.Option(metavar="CMD", help="Shell command to run at a stall, with verdict.json on stdin.")
    ] = "",
    capture: Annotated[
        bool, typer.Option("--capture", help="Save the job's output too; it is piped, so the job sees no terminal.")
    ] = False,
    slow_after: Annotated[
        float | None,
        typer.Option(
            min=1, metavar="S", help="Report a wait of S seconds for a rank that may still come; default: 30."
        ),
    ] = None,
    abort_slow_after: Annotated[
        float | None,
        typer.Option(min=1, metavar="S", help="With --on-hang abort: after S seconds, even if the laggard works."),
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            metavar="WHERE", help="Serve Prometheus metrics at PORT or HOST:PORT; otlp: send them to a collector."
        ),
    ] = "",
    metrics_open: Annotated[
        bool, typer.Option("--metrics-open", help="Serve metrics on loopback without a token, to all local users.")
    ] = False,
    nodes_via: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="How the watchers of several nodes connect: a folder all nodes see, or HOST:PORT of one node.",
        ),
    ] = "",
    history: Annotated[
        str,
        typer.Option(metavar="URL", help="PostgreSQL database for the history; default: UNHANG_HISTORY, or SQLite."),
    ] = "",
    lang: Language = None,
) -> None:
    """Run a training command unchanged; if it stalls, show which rank, which line, and why.

    Exit code and signals are the command's own.

    Examples:
    unhang run torchrun --nproc-per-node 8 train.py
    unhang run --on-hang abort -- torchrun --nproc-per-node 8 train.py
    unhang run --metrics 9400 --lang zh -- accelerate launch train.py
    """
    if not sys.platform.startswith("linux"):
        raise UsageError(
            "unhang run works on Linux only; here, run the command itself",
            next_step="unhang diagnose PATH reads what a job left behind on any system",
        )
    import os
    import shutil

    from unhang.history.place import HISTORY, history_place
    from unhang.report.language import resolve_language, translate
    from unhang.view.listening import check_address
    from unhang.watch.job.sibling_tasks import sibling_tasks
    from unhang.watch.job.unwatched_nodes import unwatched_nodes_line
    from unhang.watch.launch.command_runner import CommandRunner, run_unwatched
    from unhang.watch.launch.records_folder import create_run_folder, join_or_create_run
    from unhang.watch.nodes.transport.node_discovery import discover_nodes
    from unhang.wire.documents.run_plan import RunPlan

    if metrics and metrics != "otlp":
        check_address(metrics, with_token=not metrics_open)
    history_place(os.environ, history)
    if history:
        os.environ[HISTORY] = history
    spoken = resolve_language(lang)
    nodes = discover_nodes(os.environ, command, nodes_via)
    try:
        meeting = join_or_create_run(lambda us: create_run_folder(folder, us, nodes), sibling_tasks(os.environ))
    except OSError as error:
        run_unwatched(command, error)
    plan = RunPlan(
        command=command,
        records=str(meeting.records),
        on_hang=on_hang.value,
        on_hang_exec=on_hang_exec,
        slow_after_s=slow_after,
        abort_slow_after_s=abort_slow_after,
        capture=capture,
        metrics=metrics,
        metrics_open=metrics_open,
        nodes_via=nodes_via,
        lang=spoken,
        cwd=os.getcwd(),  # noqa: PTH109 - as the command sees it
        width=min(120, shutil.get_terminal_size((100, 24)).columns),
    )
    unwatched = unwatched_nodes_line(command) if meeting.number == 0 else None
    if unwatched is not None:
        meeting.folder.say(f"unhang: {translate(unwatched, spoken)}\n")
    raise typer.Exit(CommandRunner(meeting, plan).run())
