"""``unhang attach [PID…]``: a job that is stuck now and was started without us."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Language, Redact, ReportFormat
from unhang.errors import UsageError

if TYPE_CHECKING:
    from unhang.findings import Verdict


def attach(
    pids: Annotated[
        list[int] | None,
        typer.Argument(metavar="[PID…]", help="Launcher, rank or any process of the job; optional if only one runs."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Folder for the evidence; default: unhang-runs/attach-TIME."),
    ] = None,
    for_s: Annotated[
        float,
        typer.Option(
            "--watch-for", min=0, max=3600, metavar="S", help="Spread the samples over S seconds; for slow jobs."
        ),
    ] = 0,
    form: Annotated[ReportFormat, typer.Option("--format", help="Output format.")] = ReportFormat.TEXT,
    lang: Language = None,
    redact: Redact = False,
) -> None:
    """Diagnose a job that is stuck right now.

    Reads the stacks of every rank on this machine and whatever else the job offers. Ends no process, changes nothing.

    Exit codes: 0 nothing is stuck, 1 something stops or slows the job, 2 bad usage or no rank found, 3 undecided.

    Examples:
    unhang attach
    unhang attach 4711 --watch-for 60
    unhang attach --format json --output verdict.json
    """
    if not sys.platform.startswith("linux"):
        raise UsageError(
            "unhang attach works on Linux only",
            next_step="unhang diagnose PATH reads what a job left behind on any system",
        )
    from unhang.cli.output.verdict_output import VerdictOutput, exit_code
    from unhang.report.localizer import Localizer
    from unhang.report.redaction.redact import Redactor
    from unhang.sentences import say
    from unhang.watch.attach.advice import advice, reread_hint, stack_group_lines
    from unhang.watch.attach.evidence_collection import collect_evidence, create_bundle_folder
    from unhang.watch.attach.live_verdict import diagnose_bundle
    from unhang.watch.attach.rank_selection import permission_error, select_ranks
    from unhang.watch.process_state.proc_processes import ProcessTable

    output = VerdictOutput.chosen(form.value, lang=lang, redact=redact)
    machine = ProcessTable.snapshot()
    chosen = select_ranks(machine, pids or [])
    place = create_bundle_folder(folder, several_hosts=chosen.several_hosts)
    world = chosen.ranks[0].world_size
    here = say("sampling {here} of {world} ranks", here=len(chosen.ranks), world=world if world is not None else "?")
    localizer = Localizer(output.lang, Redactor(share=redact))
    if chosen.others:
        jobs = "; ".join(chosen.others)
        elsewhere = say("other jobs on this machine: {jobs}; to choose one: unhang attach PID", jobs=jobs)
        print(localizer.say(elsewhere), file=sys.stderr)
    print(localizer.say(here), file=sys.stderr)
    try:
        taken = collect_evidence(chosen, machine, place, for_s=for_s)
        conclusion = diagnose_bundle(taken)
    except OSError as error:
        raise UsageError(
            f"cannot write the evidence to {place} ({error.strerror})", next_step="name another folder with --dir"
        ) from error
    if chosen.is_unreadable and not _is_conclusive(conclusion.verdict):
        raise permission_error(chosen)
    output.give(conclusion.verdict, conclusion.facts)
    localizer = Localizer(output.lang, output.redactor(conclusion.verdict, conclusion.facts))
    # standard output holds one JSON object, or one page, and nothing else
    file = sys.stdout if form is ReportFormat.TEXT else sys.stderr
    lines = [
        localizer.line(localizer.say(text))
        for text in (*stack_group_lines(taken), *advice(taken, conclusion), reread_hint(place))
    ]
    print("\n" + "\n".join(lines), file=file)
    raise typer.Exit(exit_code(conclusion.verdict))


def _is_conclusive(verdict: Verdict) -> bool:
    """Process states alone tell of stopped ranks, and of nothing else."""
    return bool(verdict.findings) and verdict.findings[0].cause.value != "unknown"
