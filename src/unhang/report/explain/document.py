"""An explanation as one JSON object (``unhang explain --format json``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from unhang.report.explain.explanation_text import localized
from unhang.report.explain.page import Explanation, ExplanationPage, PageLine
from unhang.report.localizer import Localizer
from unhang.sentences import Text

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incidents import Incident

SCHEMA = "unhang.explanation/1"


def explanation_json(explanation: Explanation, localizer: Localizer) -> str:
    """``explanation`` as an indented JSON object with a newline at its end."""
    document = {
        "schema": SCHEMA,
        "lang": localizer.lang,
        "asked": localizer.clean(explanation.asked),
        "pages": [_page(page, localizer) for page in explanation.pages],
        "incidents": [_incident(row, localizer) for row in explanation.incidents],
        "did_you_mean": list(explanation.similar),
        "nearest": explanation.nearest,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _incident(row: Incident, localizer: Localizer) -> dict[str, Any]:
    told = {name: getattr(row, name) for name in ("id", "link", "year", "cause", "signs")}
    told |= {"happened": localized(row.happened, localizer), "fixed": localized(row.fixed, localizer)}
    return {**told, "established": row.established}


def _page(page: ExplanationPage, localizer: Localizer) -> dict[str, Any]:
    def told(lines: tuple[PageLine, ...]) -> list[str]:
        return [localized(line, localizer) for line in lines]

    def detail(label: Text, line: PageLine) -> dict[str, str]:
        return {"label": localizer.say(label), "text": localized(line, localizer)}

    return {
        "kind": page.kind,
        "title": localizer.line(page.title),
        "meaning": told(page.meaning),
        "harmless": localized(page.harmless, localizer) if page.harmless is not None else None,
        "do": told(page.do),
        "look": list(page.look),
        "causes": list(page.causes),
        "details": [detail(label, line) for label, line in page.details],
        "see_also": list(page.see_also),
        "source": page.source or None,
        "checked": page.checked or None,
    }
