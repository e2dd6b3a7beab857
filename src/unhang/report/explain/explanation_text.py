"""An explanation as text for a terminal: what it means, when it is harmless, what to do, where to look next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text as Styled

from unhang.knowledge.terms import term
from unhang.report.explain.code_pages import LABELS_OF_WORTH
from unhang.report.explain.page import Explanation, ExplanationPage, PageLine
from unhang.report.language import space_seams, translate_known
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incidents import Incident

KIND_LABELS: dict[str, Text] = {
    "cause": say("cause"),
    "variable": say("environment variable"),
    "message": say("message"),
    "xid": say("GPU driver event"),
    "nccl-error": say("NCCL error"),
    "status": say("completion status"),
    "exit": say("process exit"),
    "operation": say("operation"),
    "word": say("common question"),
    "subject": say("topic"),
    "version": say("version"),
    "limit": say("limit"),
    "article": say("article"),
    **{f"advice: {worth}": label for worth, label in LABELS_OF_WORTH.items()},
}


def explanation_layout(explanation: Explanation, localizer: Localizer, width: int = 80) -> TextLayout:
    """The pages under each other; above them, that they are only the nearest, where they are."""
    layout = TextLayout(width)
    if missing := missing_text(explanation, localizer):
        layout.paragraph(localizer.say(missing), indent=0)
    for page in explanation.pages:
        _page(layout, page, localizer)
    if explanation.incidents:
        _incidents(layout, explanation.incidents, localizer)
    return layout


def missing_text(explanation: Explanation, localizer: Localizer) -> Text | None:
    """That no page is about exactly this, and what comes nearest; None where one is."""
    asked, names = localizer.line(explanation.asked, 60), ", ".join(explanation.similar)
    if explanation.pages:
        return say("No page for '{asked}'; nearest page:", asked=asked) if explanation.nearest else None
    if names:
        return say("No page for '{asked}'; nearest: {names}", asked=asked, names=names)
    return say("No page for '{asked}'.", asked=asked)


def localized(line: PageLine, localizer: Localizer) -> str:
    """A sentence of the knowledge, or one made with ``say``, in the language of ``localizer``."""
    if isinstance(line, Text):
        return localizer.say(line)
    return localizer.clean(translate_known(line, localizer.lang))


def _page(layout: TextLayout, page: ExplanationPage, localizer: Localizer) -> None:
    layout.heading(localizer.line(_title(page, localizer.lang)), localizer.say(KIND_LABELS[page.kind]))
    for line in page.meaning:
        layout.paragraph(localized(line, localizer))
    if page.harmless is not None:
        layout.paragraph(localized(page.harmless, localizer), lead=localizer.say(say("Harmless: ")), style="green")
    if page.do:
        layout.subheading(localizer.say(say("What to do")))
        for line in page.do:
            layout.paragraph(localized(line, localizer), lead="• ")
    if page.look:
        layout.subheading(localizer.say(say("Where to look")))
        for command in page.look:
            layout.command(command, indent=4)
    for label, line in page.details:
        layout.paragraph(
            Styled(localizer.say(say("{label}: ", label=label)), "bold").append(localized(line, localizer), "not bold")
        )
    _further_reading(layout, page, localizer)


def _title(page: ExplanationPage, lang: str) -> str:
    known = translate_known(page.title, lang)
    row = term(page.title) if lang == "zh" and known == page.title and page.kind in ("word", "subject") else None
    named = next((f"{name}（{known}）" for name in (row.names if row else ()) if not name.isascii()), known)
    return space_seams("\0".join(named)) if lang == "zh" else named


def _incidents(layout: TextLayout, incidents: tuple[Incident, ...], localizer: Localizer) -> None:
    layout.heading(localizer.say(say("Known incidents")), localizer.say(say("public reports whose cause was found")))
    for row in incidents:
        cause = Styled(localizer.say(say("{label}: ", label=row.cause.value)), "bold")
        layout.paragraph(cause.append(localized(row.happened, localizer), "not bold"), lead="• ")
        layout.paragraph(localized(row.fixed, localizer), lead="  " + localizer.say(say("What ended it: ")))
        layout.paragraph(row.link, lead="  ", style="dim")


def _further_reading(layout: TextLayout, page: ExplanationPage, localizer: Localizer) -> None:
    words = (*page.causes, *page.see_also)
    if words:
        layout.paragraph(" · ".join(words), lead=localizer.say(say("See also: ")), style="bold")
    if page.source and page.kind != "word":
        parts = (translate_known(part, localizer.lang) for part in page.source.split("; "))
        told: PageLine = localizer.say(say("; ")).join(parts)
        told = say("{symptom} ({where})", symptom=told, where=page.checked) if page.checked else told
        source = localizer.line(localized(told, localizer), 240)
        layout.paragraph(source, lead=localizer.say(say("Source: ")), style="dim")
