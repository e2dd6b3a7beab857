"""``unhang history``: what earlier runs came to, which host again, and what changed since the last good one."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Format, Language
from unhang.errors import UsageError

if TYPE_CHECKING:
    from unhang.history.database import History
    from unhang.history.place import HistoryPlace
    from unhang.sentences import Text

DAY_S = 86_400.0
FORGET_LIMIT_S = 600.0
"""One statement may delete a year of a cluster."""


def history(
    number: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run number; shows its verdicts and the last good run before.")
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Show only runs on this host.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=5_000, metavar="N", help="Show the last N runs.")] = 20,
    days: Annotated[
        int, typer.Option(min=1, max=36_500, metavar="N", help="Count who was named in the last N days.")
    ] = 30,
    place: Annotated[
        str,
        typer.Option(
            "--history", metavar="URL", help="PostgreSQL database of the history; default: UNHANG_HISTORY, or SQLite."
        ),
    ] = "",
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,  # as it was called
    forget: Annotated[bool, typer.Option("--forget", help="Forget everything, or only the setting named.")] = False,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="DAYS", help="With --forget: only runs that ended before, such as 90d."),
    ] = "",
    lang: Language = None,
) -> None:
    """Show earlier runs of `unhang run` and how they ended.

    The history stays on this machine, or in the database you name.

    Exit codes: 0 shown, 2 the history cannot be read.

    Examples:
    unhang history
    unhang history 17
    unhang history --host gpu-07 --limit 100 --format json
    unhang history --forget NCCL_P2P_DISABLE
    unhang history --history postgresql://reader@db/unhang --days 90
    """
    from unhang.history import text
    from unhang.history.database import open_history
    from unhang.history.place import history_place
    from unhang.report.language import resolve_language, translate

    form = Format.JSON if as_json else form
    spoken = "en" if form is Format.JSON and not lang else resolve_language(lang)
    where = history_place(os.environ, place)
    if older_than and (not forget or number is not None):
        raise UsageError("--older-than needs --forget alone", next_step="unhang history --forget --older-than 90d")
    if forget and number is not None and number.isdecimal():
        raise UsageError(f"{number} is not the name of a setting", next_step="unhang history lists them")
    if not forget and number is not None and not number.isdecimal():
        raise UsageError(f"{number} is not the number of a run", next_step="unhang history lists them")
    if forget:
        print(translate(_forget(where, number, older_than), spoken))
        return
    with open_history(where) as known:
        if number is not None:
            _give(_one(known, int(number), spoken, form), form)
            return
        runs, suspects, needed = known.runs(limit=limit, host=host), known.suspects(days), known.needed(host)
    width = min(140, shutil.get_terminal_size((100, 24)).columns)
    _give(
        text.as_json(runs, suspects, needed, spoken)
        if form is Format.JSON
        else text.as_text(runs, suspects, needed, spoken, width),
        form,
    )


def _forget(place: HistoryPlace, name: str | None, older_than: str) -> Text:
    from unhang.history.database import open_history
    from unhang.history.opening import shown
    from unhang.sentences import say

    days = _days(older_than) if older_than else None
    with open_history(place, to_write=True, limit_s=FORGET_LIMIT_S) as known:
        if days is not None:
            count = known.forget_before(time.time() - days * DAY_S)
            return say("forgotten: {count} runs ({path})", count=count, path=shown(place))
        if name is None:
            return say("forgotten: {count} runs ({path})", count=known.forget(), path=shown(place))
        if known.forget_needed(name):
            return say("forgotten: {name} ({path})", name=name, path=shown(place))
    raise UsageError(f"the history holds no setting {name}", next_step="unhang history lists them")


def _days(text: str) -> int:
    number = text.removesuffix("d")
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        raise UsageError(f"{text} is no number of days", next_step="unhang history --forget --older-than 90d")
    return int(number)


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
