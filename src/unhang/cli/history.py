"""``unhang history``: what earlier runs came to, which host again, and what changed since the last good one."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Format, Language
from unhang.errors import UsageError

if TYPE_CHECKING:
    from unhang.history.database import History


def history(
    number: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run number; shows its verdicts and the last good run before.")
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Show only runs on this host.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=5_000, metavar="N", help="Show the last N runs.")] = 20,
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,  # as it was called
    forget: Annotated[bool, typer.Option("--forget", help="Forget everything, or only the setting named.")] = False,
    lang: Language = None,
) -> None:
    """Show earlier runs of `unhang run` and how they ended.

    The history stays on this machine.

    Exit codes: 0 shown, 2 the history cannot be read.

    Examples:
    unhang history
    unhang history 17
    unhang history --host gpu-07 --limit 100 --format json
    unhang history --forget NCCL_P2P_DISABLE
    """
    from unhang.history import text
    from unhang.history.database import history_path, open_history
    from unhang.report.language import resolve_language, translate
    from unhang.sentences import say

    form = Format.JSON if as_json else form
    spoken = "en" if form is Format.JSON and not lang else resolve_language(lang)
    path = history_path(os.environ)
    if forget and number is not None and number.isdecimal():
        raise UsageError(f"{number} is not the name of a setting", next_step="unhang history lists them")
    if not forget and number is not None and not number.isdecimal():
        raise UsageError(f"{number} is not the number of a run", next_step="unhang history lists them")
    if forget:
        with open_history(path, to_write=True) as known:
            if number is None:
                told = say("forgotten: {count} runs ({path})", count=known.forget(), path=str(path))
            elif known.forget_needed(number):
                told = say("forgotten: {name} ({path})", name=number, path=str(path))
            else:
                raise UsageError(f"the history holds no setting {number}", next_step="unhang history lists them")
            print(translate(told, spoken))
        return
    with open_history(path) as known:
        if number is not None:
            _give(_one(known, int(number), spoken, form), form)
            return
        runs, guilty, needed = known.runs(limit=limit, host=host), known.guilty(), known.needed(host)
    width = min(140, shutil.get_terminal_size((100, 24)).columns)
    _give(
        text.as_json(runs, guilty, needed, spoken)
        if form is Format.JSON
        else text.as_text(runs, guilty, needed, spoken, width),
        form,
    )


def _one(known: History, number: int, lang: str, form: Format) -> str:
    from unhang.history import text

    run = known.run(number)
    if run is None:
        raise UsageError(f"no run {number} in the history", next_step="unhang history lists them")
    good = known.last_good(run)
    return text.run_as_json(run, good, lang) if form is Format.JSON else text.run_as_text(run, good, lang)


def _give(answer: str, form: Format) -> None:
    from unhang.cli.output.answer import as_block

    print(as_block(answer) if form is Format.MARKDOWN else answer, end="")
