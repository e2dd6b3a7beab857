"""Pages of messages pasted whole, read as a log is: prefixes, quote marks, wrapped lines and all."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence

from unhang.evidence.items import LogEvent
from unhang.evidence.logs import read_log
from unhang.knowledge.messages import MessageRow, load_messages, message_row
from unhang.knowledge.templates.template_rows import ECHO, NOTHING, ROOT, WRAPPER, program_messages
from unhang.knowledge.terms import advice, term
from unhang.report.explain.code_pages import term_page, xid_page
from unhang.report.explain.page import ExplanationPage, PageLine
from unhang.sentences import Text, say

MESSAGES_SHOWN, RELATED_SHOWN = 4, 3
_SHOWN = ("operation", "position", "last_completed", "last_enqueued", "limit_ms", "elapsed_ms", "peer", "ranks", "key")
_HALF_A_NAME, _HALF_A_SENTENCE = 8, 2
_NAME = re.compile(r"[a-z][A-Z]|[A-Z][/_]|[\w:]_\w|::|\d")
_NCCL_SAYS = "host:1:1 [0] NCCL WARN "
"""Many copy what NCCL says without what stands in front of it."""
_OF_TEMPLATES = {
    ROOT: say("It says itself what is wrong."),
    ECHO: say("Another process failed or did not answer: what that one printed first says more."),
    WRAPPER: say("It says only that something failed: the reason is printed with it or above it."),
    NOTHING: say("By itself it says nothing of a stall or a crash."),
}


def message_pages(text: str) -> list[ExplanationPage]:
    """What the pasted lines say, in their order: one page a kind of message, and pages of the codes in them."""
    one_line, events = " " in text and "\n" not in text, _events(text)
    if not one_line or any(not message_row(event.kind).fallback for event in events):
        return _pages(events)
    # a row that takes whatever no other row takes knows less of it
    without_prefix = [event for event in _events(_NCCL_SAYS + text) if not message_row(event.kind).fallback]
    return template_pages(text) or _pages(events or without_prefix)


def _events(text: str) -> Sequence[LogEvent]:
    return read_log(io.BytesIO(text.encode("utf-8", "replace")), source="paste").events


def _pages(events: Sequence[LogEvent]) -> list[ExplanationPage]:
    first: dict[str, LogEvent] = {}
    for event in events:
        first.setdefault(event.kind, event)
    pages = [_page(event) for event in list(first.values())[:MESSAGES_SHOWN]]
    related = {page.title: page for event in events for page in _related(event)}
    return pages + list(related.values())[:RELATED_SHOWN]


def template_pages(text: str) -> list[ExplanationPage]:
    """Of a line that a program of jobs prints and no row explains: which program it is, where, and what it is worth."""
    rows = program_messages(text)
    if not rows:
        return []
    row, programs = rows[0], ", ".join(each.program for each in rows)
    return [
        ExplanationPage(
            kind="message",
            title=f"{programs}: {row.template}",
            meaning=(_OF_TEMPLATES[row.kind],),
            causes=(row.cause.value,) if row.cause else (),
            details=((say("Printed in versions"), ", ".join(f"{each.program} {each.releases}" for each in rows)),),
            source=", ".join(dict.fromkeys(each.place for each in rows)),
        )
    ]


def pages_with_phrase(text: str) -> list[ExplanationPage]:
    """Messages whose example holds these words: for halves of messages that no pattern matches.

    One or two plain words stand in many messages; a name of a program (``recvValue``, ``NET/IB``) does not.
    """
    phrase = " ".join(text.casefold().split())
    if len(phrase) < _HALF_A_NAME or (phrase.count(" ") < _HALF_A_SENTENCE and _NAME.search(text) is None):
        return []
    rows = [row for row in load_messages() if phrase in " ".join(row.example.casefold().split())]
    return [_row_page(row) for row in rows[:MESSAGES_SHOWN]] or _rows_with_literal(text)


def _rows_with_literal(text: str) -> list[ExplanationPage]:
    """The message whose literal text is at least half of the line, although the rest of the line is new."""
    if " " not in text:
        return []
    near = [(max(map(len, held)), row) for row in load_messages() if (held := [a for a in row.anchors if a in text])]
    longest = max((length for length, _ in near), default=0)
    enough = longest >= max(_HALF_A_NAME, len(text) / 2)
    return [_row_page(row) for length, row in near if length == longest and enough][:2]


def _page(event: LogEvent) -> ExplanationPage:
    return _row_page(message_row(event.kind), tuple(_values(event)), _words(event))


def _row_page(
    row: MessageRow, details: tuple[tuple[Text, PageLine], ...] = (), see_also: tuple[str, ...] = ()
) -> ExplanationPage:
    # what to do about an Xid depends on its number, which has a page of its own
    what = advice(row.says) if not row.benign and row.id != "k.xid" else None
    versions = f"{row.since or '…'} – {row.until or '…'}" if row.since or row.until else ""
    return ExplanationPage(
        kind="message",
        title=f"{row.owner}: {row.id}" if row.owner else row.id,
        meaning=(row.meaning,),
        harmless=say("It is not a cause by itself.") if row.benign else None,
        do=(what.do,) if what is not None else (),
        causes=what.causes if what is not None else (),
        details=details + (((say("Printed in versions"), versions),) if versions else ()),
        see_also=see_also,
        source=row.source,
        checked=row.checked,
    )


def _values(event: LogEvent) -> Iterator[tuple[Text, PageLine]]:
    values = event.values
    told = [f"{name}={values[name]}" for name in _SHOWN if values.get(name) not in (None, "", ())]
    if event.rank is not None:
        told.insert(0, f"rank={event.rank}")
    if told:
        yield say("In this line"), ", ".join(told)
    given, got = values.get("elements_in"), values.get("elements_out")
    if isinstance(given, int) and isinstance(got, int) and given > 0 and values.get("operation") == "_all_gather_base":
        ranks, rest = divmod(got, given)
        if rest == 0 and ranks > 1:
            yield say("Group"), say("{count} ranks (NumelOut / NumelIn)", count=ranks)


def _words(event: LogEvent) -> tuple[str, ...]:
    operation = event.values.get("operation")
    return (str(operation),) if operation and term(str(operation)) else ()


def _related(event: LogEvent) -> Iterator[ExplanationPage]:
    values = event.values
    if isinstance(values.get("xid"), int) and (page := xid_page(values["xid"])) is not None:
        yield page
    names = [f"status={values['status']}"] if event.kind == "n.ibwc" and "status" in values else []
    names += [str(values[name]) for name in ("code", "error") if name in values]
    names += [f"exit code {values['exit_code']}"] if "exit_code" in values else []
    names += [str(values["signal"])] if "signal" in values else []
    for name in names:
        found = term(name)
        if found is not None and found.kind in ("status", "nccl-error", "exit"):
            yield term_page(found)
