"""A comparison as one JSON object, schema ``unhang.comparison/1``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from unhang import __version__
from unhang.findings import NotChecked
from unhang.report.language import translate
from unhang.report.printable import printable
from unhang.report.redaction.redact import Redactor
from unhang.sentences import Text
from unhang_compare.comparison import Change, RankPair, RunComparison, StepPart
from unhang_compare.noise import TimeDifference

SCHEMA = "unhang.comparison/1"


def to_json(comparison: RunComparison, *, lang: str = "en", redactor: Redactor | None = None) -> str:
    """``comparison`` with its sentences in ``lang``, and a line end."""
    document = (redactor or Redactor()).plain(_document(comparison, lang))
    return printable(json.dumps(document, ensure_ascii=False, indent=2)) + "\n"


def _document(one: RunComparison, lang: str) -> dict[str, Any]:
    head = {"schema": SCHEMA, "unhang": __version__, "lang": lang}
    names = ("kind", "answer", "summary", "because", "before", "after", "pairs", "grew", "shrank", "changes")
    told = {"ranks" if name == "pairs" else name: _told(getattr(one, name), lang) for name in names}
    unread = [{"source": unread.source.path, "reason": unread.reason} for unread in one.unread]
    return {**head, **told, "not_compared": _told(one.not_compared, lang), "unread": unread}


_FIELDS: Mapping[type, tuple[str, ...]] = {
    RankPair: ("rank", "before", "after", "median", "mean"),
    TimeDifference: ("before_s", "after_s", "grew_s", "low_s", "high_s"),
    Change: ("kind", "name", "before", "after", "matters", "known_bad", "because"),
    NotChecked: ("what", "because", "how"),
}
"""What is told of a part of a comparison, where that is not all of its fields."""


def _told(value: Any, lang: str) -> Any:
    """``value`` as JSON holds it; the difference of a part of the step is told among its own fields."""
    if isinstance(value, Text):
        return translate(value, lang)
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, tuple):
        return [_told(one, lang) for one in value]
    if not is_dataclass(value):
        return value
    names = _FIELDS.get(type(value)) or [field.name for field in fields(value)]
    found = {name: _told(getattr(value, name), lang) for name in names}
    return found | found.pop("difference") if isinstance(value, StepPart) else found
