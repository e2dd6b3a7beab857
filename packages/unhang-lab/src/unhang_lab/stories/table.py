"""The stories by moment as a Markdown table: what was found in each, or what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unhang.errors import UsageError
from unhang.findings import Cause
from unhang.report.language import translate
from unhang.sentences import Text, say
from unhang_lab.stories.moments import MomentResult, StoryStep
from unhang_lab.stories.story import STORIES, ExpectedFinding, Moment

BEGIN, END = "<!-- stories: unhang demo --table -->", "<!-- end of stories -->"
"""Markers of the table in a page."""
HEADS = {
    Moment.BEFORE: say("before"),
    Moment.DURING: say("during"),
    Moment.AFTER: say("after"),
    Moment.FIXED: say("fixed"),
}
FOUND, FAILED, NOT_ASKED = "✓", "✗", "–"


def stories_table(
    cells: Mapping[tuple[str, Moment], MomentResult], lang: str = "en", kept: Mapping[str, str] | None = None
) -> str:
    """Five rows, four columns of cells; a cell that is not there is a dash.

    ``kept``: by story, the row to keep where none of its cells is there.
    """
    heads = [say("story"), *HEADS.values()]
    commands: tuple[Text | str, ...] = (
        "",
        "`unhang check`",
        "`unhang run`",
        "`unhang diagnose`",
        say("the remedy applied"),
    )
    spoken = [[_spoken(part, lang) for part in both if part] for both in zip(heads, commands, strict=True)]
    lines = [_row([": ".join(parts) for parts in spoken]), _row(["---"] * 5)]
    for name in STORIES:
        found = [cells.get((name, moment)) for moment in Moment]
        row = _row([_link(name), *(cell_text(cell, lang) for cell in found)])
        lines.append(row if any(found) else (kept or {}).get(name, row))
    return "\n".join(lines) + "\n"


def rows_of(page: Path) -> dict[str, str]:
    """By story, the rows of the table that stands in ``page``; empty where none does."""
    shown = page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].splitlines()
    return {name: line for line in shown for name in STORIES if line.startswith(f"| {_link(name)} |")}


def _link(name: str) -> str:
    return f"[{name}](../stories/{name})"


def cell_text(cell: MomentResult | None, lang: str) -> str:
    """What was found, or the first thing that is wrong."""
    if cell is None:
        return NOT_ASKED
    if not cell.right:
        wrong = next((text for step in cell.steps for text in step.wrong), say("nothing was run"))
        return f"{FAILED} {translate(wrong, lang)}"
    return f"{FOUND} " + _TEXTS[cell.moment](cell, lang)


def fill_section(page: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Put ``text`` between two markers of ``page``.

    Raises:
        UsageError: the page has no such markers.
    """
    head, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, tail = rest.partition(end)
    if not found or not ended:
        raise UsageError(f"{page} has no place for the table: it goes between {begin} and {end}")
    page.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")


def _before(cell: MomentResult, _lang: str) -> str:
    found = [_finding(one) for step in cell.steps for wanted in step.wanted if (one := _meant(step, wanted))]
    return "; ".join(dict.fromkeys(found))


def _during(cell: MomentResult, lang: str) -> str:
    first = _first(cell.steps[0])
    ranks = translate(say("{ranks:who}", ranks=tuple(first["ranks"])), lang) if first["ranks"] else ""
    noticed = translate(say("after {took:.0f} s", took=cell.noticed_s or 0.0), lang)
    return ", ".join(part for part in (f"`{first['cause']}`", ranks, _place(first), noticed) if part)


def _after(cell: MomentResult, lang: str) -> str:
    names = (say("log alone"), say("run folder"))
    parts = []
    for name, step in zip(names, cell.steps, strict=True):
        first = _first(step)
        known = first["cause"] != Cause.UNKNOWN.value
        certainty = translate(_CERTAINTIES[first["certainty"]], lang) if known else ""
        told = ", ".join(part for part in (f"`{first['cause']}`", certainty, _place(first)) if part)
        parts.append(f"{translate(name, lang)}: {told}")
    return "; ".join(parts)


def _fixed(cell: MomentResult, lang: str) -> str:
    said = [say("ends well, nothing found"), *(text for step in cell.steps for text in step.also)]
    return ", ".join(translate(text, lang) for text in said)


_TEXTS = {Moment.BEFORE: _before, Moment.DURING: _during, Moment.AFTER: _after, Moment.FIXED: _fixed}
_CERTAINTIES = {"certain": say("certain"), "likely": say("likely"), "possible": say("possible")}


def _meant(step: StoryStep, wanted: ExpectedFinding) -> dict[str, Any] | None:
    """The finding of a check that is the wanted one."""
    for finding in (step.verdict or {}).get("findings", ()):
        same = wanted.cause in (None, finding["cause"]) and wanted.check in ("", finding["check"])
        if same and wanted.subject in ("", finding["subject"]):
            return dict(finding)
    return None


def _finding(finding: Mapping[str, Any]) -> str:
    return ", ".join(part for part in (f"`{finding['cause']}`", _place(finding)) if part)


def _first(step: StoryStep) -> dict[str, Any]:
    return dict((step.verdict or {})["findings"][0])


def _place(finding: Mapping[str, Any]) -> str:
    where = finding["where"]
    if where is None:
        return f"`{finding['subject']}`" if finding["subject"] else ""
    return f"{Path(where['file']).name}:{where['line']}"


def _spoken(text: Text | str, lang: str) -> str:
    return text if isinstance(text, str) else translate(text, lang)


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(_in_a_cell(text) for text in texts) + " |"


def _in_a_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
