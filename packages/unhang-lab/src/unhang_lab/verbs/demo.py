"""``unhang demo``: watch a real job stall and read why, in under a minute; ``unhang demo NAME``: one whole story."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhang.cli.options import Language
from unhang.errors import UnhangError, UsageError

if TYPE_CHECKING:
    from unhang.report.layout.console import Console
    from unhang_lab.stories.moments import MomentResult
    from unhang_lab.stories.story import Moment


class MomentChoice(str, enum.Enum):
    """One moment of a story."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"
    FIXED = "fixed"


def demo(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Story to run, see --list; default: the short demo.")
    ] = None,
    only: Annotated[MomentChoice | None, typer.Option(help="Run only this moment of the story.")] = None,
    list_stories: Annotated[bool, typer.Option("--list", help="List the stories.")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Run all stories, or NAME, and print the results as a table.")
    ] = False,
    into: Annotated[
        list[Path] | None,
        typer.Option(metavar="PAGE", help="With --table: also put it into PAGE; in Chinese if .zh is in the name."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for the evidence; default: unhang-runs/demo-TIME."),
    ] = None,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Write the HTML report to FILE.")] = Path(
        "unhang-report.html"
    ),
    lang: Language = None,
) -> None:
    """Run a 4-rank training job that stalls on purpose, diagnose it, and write an HTML report.

    With NAME: runs a story with real libraries, diagnoses it before, during and after its stall, and applies the fix.

    Exit codes: 0 every answer was right, 1 an answer was wrong.

    Examples:
    unhang demo
    unhang demo llama-recipes --only during
    """
    from unhang.report.language import resolve_language
    from unhang.report.layout.console import Console

    console = Console(highlight=False)
    spoken = resolve_language(lang)
    if list_stories:
        _list(spoken)
    elif table:
        raise typer.Exit(_table(name, output, into or [], spoken))
    elif name is not None:
        raise typer.Exit(_story(name, only, output, console, spoken))
    elif only is not None or into:
        raise UsageError("--only and --into belong to a story", next_step="unhang demo --list")
    else:
        _short_demo(console, output, report, spoken)


def _short_demo(console: Console, out: Path | None, report: Path, lang: str) -> None:
    from unhang.sentences import say
    from unhang_lab.lab_case import find_case
    from unhang_lab.run_case import run_case
    from unhang_lab.verbs.lab import new_run_folder
    from unhang_lab.verbs.recording import RecordingSteps, interrupt_on_termination, print_verdict
    from unhang_lab.verbs.story_output import sentence

    opening = say("This trains on 4 ranks of this machine (CPU, Gloo). Something is wrong with the data")
    console.print(sentence(opening, lang), soft_wrap=True)
    with RecordingSteps(lang) as steps, interrupt_on_termination():
        folder = out or new_run_folder("unhang-runs/demo-")
        bundle = run_case(find_case("split-without-seed"), folder, ranks=4, tell=steps.tell)
    # The verdict is the point of the demo: finding the fault is its success.
    print_verdict(bundle, report=report, lang=lang)
    console.print(f"\n$ unhang diagnose {bundle}", markup=False, soft_wrap=True)


def _list(lang: str) -> None:
    from unhang_lab.stories.story import available_stories, story_folder
    from unhang_lab.stories.story_file import load_story

    for name in available_stories():
        story = load_story(story_folder(name))
        print(f"{name:<15} {story.title.get(lang, story.title['en'])}")


def _story(name: str, only: MomentChoice | None, out: Path | None, console: Console, lang: str) -> int:
    from unhang.sentences import say
    from unhang_lab.stories.story import Moment, story_folder
    from unhang_lab.stories.story_file import load_story
    from unhang_lab.verbs.lab import new_run_folder
    from unhang_lab.verbs.story_output import sentence

    story = load_story(story_folder(name))
    folder = _empty(out or new_run_folder(f"unhang-runs/{name}-"))
    moments = tuple(Moment) if only is None else (Moment(only.value),)
    console.print(f"[bold]{name}[/bold]: {story.title.get(lang, story.title['en'])}")
    cells = list(_shown(name, moments, folder, console, lang))
    right = all(cell.right for cell in cells)
    ending = say("all as expected") if right else say("not all as expected")
    console.print(f"\n{sentence(ending, lang)}: {folder}", markup=False, soft_wrap=True)
    return 0 if right else 1


def _table(only: str | None, out: Path | None, pages: list[Path], lang: str) -> int:
    """The table goes to standard output, what is told on the way to standard error."""
    from unhang.report.layout.console import Console
    from unhang_lab.stories.moments import failed_moment
    from unhang_lab.stories.story import Moment, available_stories, story_folder
    from unhang_lab.stories.table import fill_section, rows_of, stories_table
    from unhang_lab.verbs.lab import new_run_folder

    console = Console(stderr=True, highlight=False)
    folder = _empty(out or new_run_folder("unhang-runs/stories-"))
    cells = {}
    for name in available_stories() if only is None else (story_folder(only).name,):
        console.print(f"\n[bold]{name}[/bold]")
        try:
            for cell in _shown(name, tuple(Moment), folder / name, console, lang):
                cells[name, cell.moment] = cell
        except UnhangError as error:  # a story that cannot be told does not keep the others from it
            console.print(str(error), markup=False, soft_wrap=True)
            cells.update(
                {(name, moment): failed_moment(name, moment, error) for moment in Moment if (name, moment) not in cells}
            )
    for page in pages:
        fill_section(page, stories_table(cells, "zh" if ".zh" in page.name else "en", rows_of(page)))
    print(stories_table(cells, lang), end="")
    return 0 if all(cell.right for cell in cells.values()) else 1


def _shown(name: str, moments: tuple[Moment, ...], folder: Path, console: Console, lang: str) -> Iterator[MomentResult]:
    """The cells of a story, each shown as soon as it is known."""
    from unhang_lab.stories.moments import tell_story
    from unhang_lab.stories.story import story_folder
    from unhang_lab.stories.story_file import load_story
    from unhang_lab.verbs.recording import RecordingSteps, interrupt_on_termination
    from unhang_lab.verbs.story_output import show_cell

    with RecordingSteps(lang) as steps, interrupt_on_termination():
        for cell in tell_story(load_story(story_folder(name)), moments, folder, tell=steps.tell):
            show_cell(cell, console, lang, folder)
            yield cell


def _empty(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", next_step="name another folder with --output")
    return folder
