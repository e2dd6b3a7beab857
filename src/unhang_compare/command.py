"""``unhang compare A B``: two runs, two traces, two spans of steps or two sets of ranks: what grew, and where."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Format, Language, Redact
from unhang.errors import UsageError

if TYPE_CHECKING:
    from unhang.cli.output.progress_bar import ReadingBar
    from unhang_compare.comparison import RunComparison
    from unhang_compare.comparison_side import ComparisonSide


def compare(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="A [B]",
            help="Run folders of unhang run, torch.profiler traces (.json, .json.gz), folders of traces; also as URLs.",
        ),
    ],
    steps: Annotated[
        str | None, typer.Option(metavar="FROM:TO", help="Compare only these steps; with --against: these are before.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="FROM:TO", help="With A alone: compare --steps with these steps.")
    ] = None,
    ranks: Annotated[str | None, typer.Option(metavar="RANKS", help="Compare only these ranks, such as 0,4-7.")] = None,
    against_ranks: Annotated[
        str | None, typer.Option(metavar="RANKS", help="With A alone: compare --ranks with these ranks.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    lang: Language = None,
    redact: Redact = False,
) -> None:
    """Show what got slower between two runs, traces, step ranges or sets of ranks, and what changed.

    A is before, B is after.

    Exit codes: 0 nothing grew beyond noise, 1 something did (or a version known to be bad was introduced), 2 bad usage
    or nothing to read, 3 too little was recorded to decide.

    Examples:
    unhang compare unhang-runs/monday unhang-runs/today
    unhang compare unhang-runs/today --steps 100:1700 --against 1850:2000
    unhang compare unhang-runs/today --ranks 1-7 --against-ranks 0
    """
    sides = _sides(paths, steps, against, ranks, against_ranks)
    from unhang_compare.compare import compare_ranks, compare_sides, compare_spans

    if len(paths) == 2:
        comparison = compare_sides(*sides)
    elif against is not None:
        comparison = compare_spans(*sides)
    else:
        comparison = compare_ranks(*sides)
    _give(comparison, form, lang, redact=redact)
    raise typer.Exit(comparison.exit_code)


def _sides(
    paths: list[str], steps: str | None, against: str | None, ranks: str | None, against_ranks: str | None
) -> tuple[ComparisonSide, ComparisonSide]:
    """The two sides, cut as the user asked for. UsageError where the options do not go together."""
    from dataclasses import replace

    from unhang_compare.selection import parse_selections

    _refuse_what_does_not_go_together(paths, steps, against, ranks, against_ranks)
    before, after = parse_selections(steps, against, ranks, against_ranks)
    first, second = _read(paths)
    first, second = before.of(first), after.of(second)
    if len(paths) == 2:
        return first, second
    words = (steps, against) if against is not None else (ranks, against_ranks)
    return replace(first, name=f"{first.name} [{words[0]}]"), replace(second, name=f"{second.name} [{words[1]}]")


def _refuse_what_does_not_go_together(
    paths: list[str], steps: str | None, against: str | None, ranks: str | None, against_ranks: str | None
) -> None:
    if len(paths) > 2:
        raise UsageError("compare takes one or two paths", next_step="unhang compare BEFORE AFTER")
    if len(paths) == 2 and (against is not None or against_ranks is not None):
        raise UsageError(
            "--against and --against-ranks compare within one run or trace",
            next_step="name one of them, or leave the option out",
        )
    if len(paths) == 1 and (against is None) == (against_ranks is None):
        raise UsageError(
            "to compare one run or trace with itself, choose steps or ranks",
            next_step=f"unhang compare {paths[0]} --steps 100:200 --against 1900:2000",
        )
    if (against is not None and steps is None) or (against_ranks is not None and ranks is None):
        option = "--steps" if against is not None else "--ranks"
        raise UsageError(f"{option} is missing: what to compare with", next_step="unhang compare --help")


def _read(paths: list[str]) -> tuple[ComparisonSide, ComparisonSide]:
    from unhang.cli.output.progress_bar import ReadingBar
    from unhang_compare.comparison_side import input_size, read_side

    done = 0
    with ReadingBar() as bar, ExitStack() as copies:
        sides = [_place_of(path, copies, bar) for path in paths]
        total = sum(input_size(str(copy or name)) for name, copy in sides if (copy or Path(name).expanduser()).exists())

        def seen(count: int, name: str) -> None:
            nonlocal done
            done += count
            bar.tell(min(done, total), total, name)

        found = [read_side(name, seen, copy) for name, copy in sides]
    return found[0], found[-1]


def _place_of(path: str, copies: ExitStack, bar: ReadingBar) -> tuple[str, Path | None]:
    """How ``path`` is shown, and where a copy lies when it is a URL."""
    from unhang.evidence.found_files import is_url

    if not is_url(path):
        return path, None
    from unhang.evidence.objects.local_copy import local_copy
    from unhang_compare.comparison_side import is_compared

    copy = copies.enter_context(local_copy(path, lambda name, _size: is_compared(name), bar.tell))
    return copy.name, copy.place


def _give(comparison: RunComparison, form: Format, lang: str | None, *, redact: bool) -> None:
    from unhang.report.language import resolve_language
    from unhang.report.redaction.redact import Redactor

    spoken = "en" if form is Format.JSON and not lang else resolve_language(lang)
    redactor = Redactor(share=redact)
    nodes = [change for change in comparison.changes if change.kind == "node" and change.name == "nodes"]
    redactor.learn_hosts(host for one in nodes for told in (one.before, one.after) if told for host in told.split(", "))
    if form is Format.JSON:
        from unhang_compare.as_json import to_json

        sys.stdout.write(to_json(comparison, lang=spoken, redactor=redactor))
    elif form is Format.MARKDOWN:
        from unhang_compare.as_markdown import to_markdown

        sys.stdout.write(to_markdown(comparison, lang=spoken, redactor=redactor))
    else:
        from unhang.report.layout.text_layout import width_of
        from unhang.report.localizer import Localizer
        from unhang_compare.as_text import comparison_sheet

        comparison_sheet(comparison, Localizer(spoken, redactor), width_of(sys.stdout)).print_to(sys.stdout)
