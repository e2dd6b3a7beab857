"""An explanation as text for a terminal: what it means, when it is harmless, what to do, where to look next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text as Styled

from unhang.report.explain.page import Explanation, ExplanationPage, PageLine
from unhang.report.language import translate_known
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incidents import Incident

KIND_LABELS: dict[str, Text] = {
    "cause": say("cause"),
    "variable": say("environment variable"),
    "message": say("message"),
    "xid": say("event of the GPU driver"),
    "nccl-error": say("NCCL error"),
    "status": say("completion status"),
    "exit": say("how a process ended"),
    "operation": say("operation"),
    "word": say("what people ask"),
    "subject": say("what articles speak of"),
    "version": say("version"),
    "limit": say("limit"),
}


def explanation_layout(explanation: Explanation, voice: Localizer, width: int = 80) -> TextLayout:
    """The pages under each other."""
    sheet = TextLayout(width)
    for page in explanation.pages:
        _page(sheet, page, voice)
    if explanation.incidents:
        _incidents(sheet, explanation.incidents, voice)
    return sheet


def localized(line: PageLine, voice: Localizer) -> str:
    """A sentence of the knowledge, or one made with ``say``, in the language of ``voice``."""
    if isinstance(line, Text):
        return voice.say(line)
    return voice.clean(translate_known(line, voice.lang))


def _page(sheet: TextLayout, page: ExplanationPage, voice: Localizer) -> None:
    sheet.heading(translate_known(page.title, voice.lang), voice.say(KIND_LABELS[page.kind]))
    for line in page.meaning:
        sheet.paragraph(localized(line, voice))
    if page.harmless is not None:
        sheet.paragraph(localized(page.harmless, voice), lead=voice.say(say("Harmless: ")), style="green")
    if page.do:
        sheet.subheading(voice.say(say("What to do")))
        for line in page.do:
            sheet.paragraph(localized(line, voice), lead="• ")
    if page.look:
        sheet.subheading(voice.say(say("Where to look")))
        for command in page.look:
            sheet.command(command, indent=4)
    for label, line in page.details:
        sheet.paragraph(
            Styled(voice.say(say("{label}: ", label=label)), "bold").append(localized(line, voice), "not bold")
        )
    _further_reading(sheet, page, voice)


def _incidents(sheet: TextLayout, incidents: tuple[Incident, ...], voice: Localizer) -> None:
    sheet.heading(voice.say(say("Known incidents")), voice.say(say("public reports whose cause was found")))
    if voice.lang != "en":
        sheet.paragraph(voice.say(say("The descriptions are in English.")), style="dim")
    for row in incidents:
        sheet.paragraph(Styled(f"{row.cause.value}: ", "bold").append(row.happened, "not bold"), lead="• ")
        sheet.paragraph(row.fixed, lead="  " + voice.say(say("What ended it: ")))
        sheet.paragraph(row.link, lead="  ", style="dim")


def _further_reading(sheet: TextLayout, page: ExplanationPage, voice: Localizer) -> None:
    words = (*page.causes, *page.see_also)
    if words:
        sheet.paragraph(" · ".join(words), lead=voice.say(say("See also: ")), style="bold")
    if page.source and page.kind != "word":
        checked = f" ({page.checked})" if page.checked else ""
        sheet.paragraph(voice.line(f"{page.source}{checked}", 240), lead=voice.say(say("Source: ")), style="dim")
