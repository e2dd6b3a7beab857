"""``unhang check [-- CMD…]``: will this run stall, and what would prevent it? It asks and never changes anything."""

from __future__ import annotations

import enum
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unhang.cli.options import Format, Language, Patch, Redact
from unhang.cli.output.notes import note
from unhang.errors import UnhangError, UsageError

if TYPE_CHECKING:
    from unhang.check.all_inspections import Inspection
    from unhang.findings import Verdict
    from unhang.host.inspection_result import InspectionResult, NodeInspection
    from unhang.host.machine import Machine
    from unhang.program.launch.job_environment import LauncherTask
    from unhang.program.launch.planned_job import PlannedJob

SAMENESS = "sameness"
NEEDED_S = 3.0
"""The limit for the history, which may lie on a home that does not answer."""
OF_EACH_RANK = (SAMENESS, "probe")
"""Questions that every rank answers; the others are asked by the first rank of a node."""


class Block(str, enum.Enum):
    """How the suggested settings are written."""

    EXPORT = "export"
    SRUN = "srun"
    MPIRUN = "mpirun"
    DEEPSPEED = "deepspeed"
    KUBERNETES = "kubernetes"


def check(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD…]", help="Command you plan to run; only read, unless --dry-run is given."),
    ] = None,
    only: Annotated[str, typer.Option(metavar="A,B", help="Run only these checks.")] = "",
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    assume: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE=VERSION", help="Assume this version instead of the installed one."),
    ] = None,
    path: Annotated[
        list[str] | None, typer.Option("--path", metavar="DIR", help="Folder the job reads from or writes to.")
    ] = None,
    block: Annotated[
        Block | None, typer.Option(help="Syntax of the suggested settings; default: what fits the command.")
    ] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Also run real collectives, on the GPUs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run the command up to its first optimizer step and compare the ranks.")
    ] = False,
    dry_run_limit: Annotated[float, typer.Option(min=1, metavar="S", help="End the dry run after S seconds.")] = 300,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Shared folder for the answers of the launcher's tasks.")
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Under a launcher: wait up to S seconds for the other tasks.")
    ] = 60,
    machine: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Check a stored machine instead of this one.")
    ] = None,
    patch: Patch = None,
    lang: Language = None,
    redact: Redact = False,
) -> None:
    """Check before a run whether it will stall, and how to prevent it.

    Start it on every node or rank (srun, mpirun, torchrun --no-python) to compare them all; rank 0 prints the answer.

    Exit codes: 0 no problem and the program was read whole, 1 something would stop or slow the job, 2 bad usage,
    3 not enough could be checked.

    Examples:
    unhang check -- torchrun --nproc-per-node 8 train.py
    unhang check --dry-run -- torchrun --nproc-per-node 8 train.py
    unhang check --patch -- torchrun --nproc-per-node 8 train.py
    srun --nodes 2 unhang check --probe
    """
    from unhang.check.all_inspections import Inspection, inspect_node
    from unhang.check.judge import judge
    from unhang.cli.output.verdict_output import exit_code
    from unhang.host.machine import Machine, StoredMachine
    from unhang.program.launch.planned_job import PlannedJob

    task = _task() if machine is None else None
    checks = choose_inspections(only, probe=probe, dry_run=dry_run)
    if task is not None and task.local_rank > 0:
        checks = [check for check in checks if check.name in OF_EACH_RANK]
    plan = PlannedJob(tuple(command or ()), _parse_assumed(assume or []), tuple(path or ()))
    place = Machine() if machine is None else StoredMachine(machine)
    situation, gaps = inspect_node(place, plan, checks)
    if machine is None:
        needed, late = inspect_node(place, PlannedJob(), [Inspection("environment", NEEDED_S, _needed_here)])
        situation = replace(situation, results={**situation.results, **needed.results})
        gaps = (*gaps, *late)
    situations: Sequence[NodeInspection] = [_after_dry_run(situation, plan, dry_run_limit) if dry_run else situation]
    if task is not None:
        from unhang.check.probe.gather_answers import gather_inspections

        together = gather_inspections(task, situations[0], folder, wait + (dry_run_limit if dry_run else 0.0))
        if together is None:
            note("rank 0 prints the answer")
            raise typer.Exit(0)
        situations, gaps = together[0], (*gaps, *together[1])
    verdict = judge(situations, [check.name for check in checks], gaps, form=block.value if block else "")
    if task is not None:
        missing = {*range(task.count)} - {one.rank for one in situations}
        verdict = replace(verdict, world_size=task.count, ranks_missing=tuple(sorted(missing)))
    if patch is None or not _give_patch(verdict, situations[0], patch, lang, redact=redact):
        print_check_verdict(verdict, form, lang, redact=redact)
    raise typer.Exit(exit_code(verdict))


def _task() -> LauncherTask | None:
    import os

    from unhang.program.launch.job_environment import find_task

    return find_task(os.environ)


def _needed_here(machine: Machine, _: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """What bisect and earlier runs showed that this machine needs."""
    import os

    from unhang.check.environment.environment import NeededSettings
    from unhang.history.database import open_history
    from unhang.history.place import history_place
    from unhang.host.inspection_result import InspectionResult
    from unhang.sentences import Text

    try:
        with open_history(history_place(os.environ)) as known:
            found = NeededSettings({one.setting: one.how for one in known.needed(machine.node)})
    except UnhangError as error:
        yield NeededSettings, InspectionResult(because=Text("{error}", {"error": str(error)}))
    else:
        yield NeededSettings, InspectionResult(found)


def _after_dry_run(here: NodeInspection, plan: PlannedJob, limit_s: float) -> NodeInspection:
    from unhang.check.sameness.sameness import DryRun
    from unhang.host.inspection_result import InspectionResult
    from unhang.watch.launch.dry_run import dry_run

    if not sys.platform.startswith("linux"):
        raise UsageError("--dry-run works on Linux only", next_step="unhang check without --dry-run works everywhere")
    if not plan.command:
        raise UsageError(
            "--dry-run needs the command to run", next_step="unhang check --dry-run -- torchrun … train.py"
        )
    if sys.stderr.isatty():
        note(f"running the command up to its first step (at most {limit_s:.0f} s) …", lead="")
    return replace(here, results={**here.results, DryRun: InspectionResult(dry_run(plan.command, limit_s))})


def choose_inspections(only: str, *, probe: bool, dry_run: bool) -> Sequence[Inspection]:
    """The questions to ask. ``only``: their names, or beginnings of names. UsageError where one is not known."""
    from unhang.check.all_inspections import ALL_INSPECTIONS

    known = {check.name: check for check in ALL_INSPECTIONS}
    names = [_spelled_out(name.strip(), known) for name in only.split(",") if name.strip()]
    strangers = [name for name in names if name not in known]
    if strangers:
        raise UsageError(f"unknown check {strangers[0]!r}", next_step=f"choose from {', '.join(known)}")
    if names and dry_run:
        names = list(dict.fromkeys((*names, SAMENESS)))
    names = names or [check.name for check in ALL_INSPECTIONS if check.default]
    return [known[name] for name in dict.fromkeys((*names, *(["probe"] if probe else [])))]


def _spelled_out(name: str, known: Collection[str]) -> str:
    """The question that begins with ``name``, where only one does."""
    meant = [other for other in known if other.startswith(name)]
    return meant[0] if len(meant) == 1 and name not in known else name


def _parse_assumed(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, sign, version = word.partition("=")
        if not sign or not name or not version:
            raise UsageError(f"--assume takes PACKAGE=VERSION, not {word}", next_step="unhang check --assume torch=2.8")
        found[name.strip().lower()] = version.strip().lstrip("=")
    return found


def _give_patch(verdict: Verdict, here: NodeInspection, target: str, lang: str | None, *, redact: bool) -> bool:
    from unhang.cli.output.answer import give_patch
    from unhang.cli.output.verdict_output import VerdictOutput
    from unhang.report.patch import PatchSources

    output = VerdictOutput.chosen("text", lang=lang, redact=redact)
    return give_patch(verdict, PatchSources.of_check(here), target, output.localizer(verdict))


def print_check_verdict(verdict: Verdict, form: Format, lang: str | None, *, redact: bool) -> None:
    """Print ``verdict`` as the user wants it."""
    from unhang.report.language import resolve_language
    from unhang.report.redaction.redact import Redactor

    redactor = Redactor(share=redact)
    redactor.learn_from(verdict)
    if form is Format.JSON:
        from unhang.report.verdict_document import to_json

        sys.stdout.write(to_json(verdict, lang=resolve_language(lang) if lang else "en", redactor=redactor))
        return
    import logging

    from unhang.cli.output.answer import give_layout
    from unhang.report.check_text import check_layout
    from unhang.report.layout.text_layout import width_of
    from unhang.report.localizer import Localizer

    details = logging.getLogger("unhang").isEnabledFor(logging.DEBUG)
    layout = check_layout(verdict, Localizer(resolve_language(lang), redactor), width_of(sys.stdout), details=details)
    give_layout(layout, form.value)
