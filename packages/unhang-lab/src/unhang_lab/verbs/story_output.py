"""Tell a story on a terminal: for each moment what was run and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unhang.findings import Where
from unhang.report.first_lines import known_cause
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.report.layout.console import Console
    from unhang_lab.stories.moments import MomentResult, StoryStep


def show_cell(cell: MomentResult, console: Console, lang: str, folder: Path) -> None:
    """The moment, its commands, and under each what was answered or what is wrong with it.

    ``folder``: where the story was run; paths in it are shown as its users know them.
    """
    from unhang_lab.stories.table import HEADS

    voice = Localizer(lang)
    took = cell.took_s if cell.noticed_s is None else cell.noticed_s
    mark = "[green]✓[/green]" if cell.right else "[red]✗[/red]"
    console.print(f"\n{mark} [bold]{voice.say(HEADS[cell.moment]).upper()}[/bold] [dim]{took:.1f} s[/dim]")
    for step in cell.steps:
        console.print(f"  $ {voice.line(step.command)}", markup=False, soft_wrap=True)
        for text in _lines(step, cell, voice):
            console.print(f"    {_shortened(text, folder)}", markup=False, soft_wrap=True)


def _shortened(text: str, folder: Path) -> str:
    return text.replace(f"{folder.resolve() / 'stalled' / 'job'}/", "")


def _lines(step: StoryStep, cell: MomentResult, voice: Localizer) -> list[str]:
    if step.wrong:
        return [voice.sentence(text) for text in step.wrong]
    said = [voice.sentence(text) for text in step.also]
    if cell.moment.value == "fixed":
        return [voice.sentence(say("ends well, nothing found")), *said]
    findings = _answers(step)
    return [line for finding in findings for line in _finding(finding, voice)] + said


def _answers(step: StoryStep) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (step.verdict or {}).get("findings", [])
    if not step.command.startswith("unhang check"):
        return found[:1]
    wanted = {one.cause.value for one in step.wanted if one.cause is not None}
    return [finding for finding in found if finding["cause"] in wanted][:3]


def _finding(finding: dict[str, Any], voice: Localizer) -> list[str]:
    where = finding["where"]
    place = voice.place(Where(Path(where["file"]).name, where["line"], "")) if where else finding["subject"] or ""
    about = [*known_cause(finding["cause"], finding["certainty"], voice), place]
    lines = [*filter(None, [" · ".join(filter(None, about))]), finding["summary"]]
    if finding["remedies"]:
        remedy = finding["remedies"][0]
        lines.append(f"→ {remedy['title']}: {remedy['change']}")
    return [voice.line(line) for line in lines]


def sentence(text: Text, lang: str) -> str:
    """A sentence of the demo itself."""
    return Localizer(lang).sentence(text)
