"""``unhang ramp --grow batch=1:64 -- CMD… {batch}``: grow a job until something gives way, and say what."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Format, Language
from unhang.errors import UsageError

if TYPE_CHECKING:
    from unhang_ramp.trial import RampTrial


def ramp(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="CMD…", help="Command with {NAME} where a value goes; run once for each size or setting."
        ),
    ],
    grow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1,2,4", help="Values to grow: NAME=1,2,4, NAME=1:64 or NAME=2,3@ds.json:key.in.it."),
    ] = None,
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="NAME=2,3",
            help="Settings to try instead, all combinations: NAME=2,3, ONE*OTHER=1*8,2*4 (paired), …@ds.json:key.in",
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=2, metavar="N", help="Steps to time at each size, after one warm-up step.")
    ] = 5,
    limit: Annotated[float, typer.Option(min=1, metavar="S", help="End each size after S seconds.")] = 600,
    stall_after: Annotated[
        float, typer.Option(min=1, metavar="S", help="Count a wait of S seconds for a rank as a stall.")
    ] = 60,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Keep the run folder of every size in DIR.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    lang: Language = None,
) -> None:
    """Run a few steps at growing sizes or with several settings, and show what breaks or what is fastest.

    Each run ends after its steps; nothing after them runs.

    Exit codes: 0 every run was sound, 1 something broke, 2 bad usage.

    Examples:
    unhang ramp --grow batch=1:64 -- torchrun --nproc-per-node 8 train.py --batch {batch}
    unhang ramp --try workers=2,4,8 -- torchrun --nproc-per-node 8 train.py --workers {workers}
    """
    if not sys.platform.startswith("linux"):
        raise UsageError("unhang ramp works on Linux only")
    if command and shutil.which(command[0]) is None and "{" not in command[0]:
        raise UsageError(f"command not found: {command[0]}", next_step="run it alone first, then under unhang ramp")
    from unhang.cli.output.answer import give_layout
    from unhang.report.language import resolve_language
    from unhang.report.layout.text_layout import width_of
    from unhang_ramp import ramp as ramps
    from unhang_ramp.choices import compare_choices, parse_choice
    from unhang_ramp.sizes import parse_growth
    from unhang_ramp.table import choices_document, choices_sheet, ramp_sheet, to_document
    from unhang_ramp.trial import TrialLimits

    spoken = "en" if form is Format.JSON and not lang else resolve_language(lang)
    bounds = TrialLimits(steps, limit, stall_after)
    if grow and tries:
        raise UsageError("--grow and --try cannot be combined", next_step="try first, then grow what was fastest")
    if tries:
        tried = compare_choices(command, [parse_choice(text) for text in tries], bounds=bounds, keep=folder, tell=_tell)
        document, sheet = choices_document(tried, lang=spoken), choices_sheet(tried, width_of(sys.stdout), spoken)
        sound = len(tried.sound) == len(tried.trials)
    else:
        found = ramps.ramp(command, [parse_growth(text) for text in grow or ()], bounds=bounds, keep=folder, tell=_tell)
        document, sheet = to_document(found, lang=spoken), ramp_sheet(found, width_of(sys.stdout), spoken)
        sound = found.stop_reason is None
    if form is Format.JSON:
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        give_layout(sheet, form.value)
    raise typer.Exit(0 if sound else 1)


def _tell(trial: RampTrial) -> None:
    """A line for whoever waits at a terminal."""
    if sys.stderr.isatty():
        size = ", ".join(f"{name}={value}" for name, value in trial.values.items())
        print(f"{size}: {trial.outcome} ({trial.seconds:.0f} s)", file=sys.stderr)
