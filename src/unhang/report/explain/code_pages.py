"""Pages of terms (NCCL errors, statuses, exit codes, operations, searched words) and of Xid codes."""

from __future__ import annotations

import re

from unhang.knowledge.hardware import XidRow, xid_row
from unhang.knowledge.terms import Term, advice, term
from unhang.report.explain.page import ExplanationPage
from unhang.sentences import Text, say

_XID = re.compile(r"(?:nvrm:?\s*)?xid(?:\s+(?:code|error))?[\s:#=_-]*(\d{1,4})$", re.IGNORECASE)
_BARE = re.compile(r"-?\d{1,4}$")
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?:\s+with)?(?:\s+(?:code|status))?|return\s?code|退出码|返回码)\s*[:=]?\s*(-?\d{1,3})$",
    re.IGNORECASE,
)
_SXID = re.compile(r"sxid[\s:#=_-]*\d*$", re.IGNORECASE)
_OPERATION = re.compile(r"(?:OpType\s*[=:]\s*)(\w+)")
XID_SOURCE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
LABELS_OF_WORTH: dict[str, Text] = {
    "right": say("Right"),
    "depends": say("It depends"),
    "costs": say("Costs"),
    "no-effect": say("No effect"),
    "harmful": say("Harmful"),
    "already": say("Already so"),
    "unknown": say("Not judged"),
}
DOCUMENTED_XIDS = range(1, 200)


def term_page(term: Term) -> ExplanationPage:
    """What ``unhang explain`` shows of a term."""
    return ExplanationPage(
        kind=term.kind,
        title=term.names[0],
        meaning=(term.meaning,),
        harmless=term.harmless or None,
        do=term.do,
        look=term.look,
        causes=term.causes,
        details=tuple((LABELS_OF_WORTH[judgement], text) for judgement, text in term.judged),
        source=term.source,
        checked=term.checked,
    )


def xid_page(code: int) -> ExplanationPage | None:
    """The page of an Xid code; None for numbers that are none."""
    row = xid_row(code)
    if row is None and code not in DOCUMENTED_XIDS:
        return None
    look = ("dmesg -T | grep -i xid", "nvidia-smi -q")
    if row is None:
        known = say("We know of no link between this Xid and stalls. NVIDIA's catalogue gives its meaning.")
        return ExplanationPage("xid", f"Xid {code}", (known,), look=look, source=XID_SOURCE)
    what = advice(f"xid-{row.kind}")
    return ExplanationPage(
        kind="xid",
        title=f"Xid {code} ({row.name})",
        meaning=(row.meaning,),
        harmless=_harmless(row),
        do=(what.do,) if what else (),
        look=look,
        causes=what.causes if what else (),
        source=row.source,
        checked=row.checked,
    )


def _harmless(row: XidRow) -> Text | None:
    if row.kind == "echo":
        return say("When it follows a killed process.")
    return say("It stops nothing by itself.") if row.kind == "note" else None


def code_pages(text: str) -> list[ExplanationPage]:
    """Pages for exactly this word or code. A bare number may be an exit code and an Xid: then both."""
    word = text.strip()
    if (xid := _XID.match(word)) is not None:
        return _pages(xid_page(int(xid[1])))
    if _SXID.match(word) is not None:
        word = "sxid"
    if (operation := _OPERATION.match(word)) is not None:
        word = operation[1]
    if term(word) is None and (left := _EXIT.match(word)) is not None:
        ended = term(f"exit code {left[1]}") or term(left[1])
        return [term_page(ended)] if ended is not None and ended.kind == "exit" else []
    named = term(word)
    if _BARE.match(word) is None:
        return [term_page(named)] if named is not None else []
    named = named or next((one for prefix in ("exit code", "error") if (one := term(f"{prefix} {word}"))), None)
    code = int(word)
    known = code >= 0 and (xid_row(code) is not None or (named is None and code in DOCUMENTED_XIDS))
    pages = [term_page(named)] if named is not None else []
    return pages + (_pages(xid_page(code)) if known else [])


def _pages(page: ExplanationPage | None) -> list[ExplanationPage]:
    return [page] if page is not None else []
