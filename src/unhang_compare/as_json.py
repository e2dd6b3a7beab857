"""A comparison as one JSON object, schema ``unhang.comparison/1``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from unhang import __version__
from unhang.report.language import translate
from unhang.report.printable import printable
from unhang.report.redaction.redact import Redactor
from unhang.sentences import Text
from unhang_compare.comparison import Change, RankPair, RunComparison, SideSummary, StepPart
from unhang_compare.noise import TimeDifference

SCHEMA = "unhang.comparison/1"


def to_json(comparison: RunComparison, *, lang: str = "en", redactor: Redactor | None = None) -> str:
    """``comparison`` with its sentences in ``lang``, and a line end."""
    document = (redactor or Redactor()).plain(_document(comparison, lang))
    return printable(json.dumps(document, ensure_ascii=False, indent=2)) + "\n"


def _document(one: RunComparison, lang: str) -> dict[str, Any]:
    def said(text: Text | None) -> str | None:
        return None if text is None else translate(text, lang)

    return {
        "schema": SCHEMA,
        "unhang": __version__,
        "lang": lang,
        "kind": one.kind,
        "answer": one.answer,
        "summary": said(one.summary),
        "because": [said(text) for text in one.because],
        "before": _side(one.before),
        "after": _side(one.after),
        "ranks": [_pair(pair) for pair in one.pairs],
        "grew": [_part(part) for part in one.grew],
        "shrank": [_part(part) for part in one.shrank],
        "changes": [{**_change(change), "because": said(change.because)} for change in one.changes],
        "not_compared": [
            {"what": said(gap.what), "because": said(gap.because), "how": gap.how} for gap in one.not_compared
        ],
        "unread": [{"source": unread.source.path, "reason": unread.reason} for unread in one.unread],
    }


def _side(side: SideSummary) -> dict[str, Any]:
    return {
        "name": side.name,
        "ranks": list(side.ranks),
        "steps": None if side.steps is None else _rounded(asdict(side.steps)),
    }


def _pair(pair: RankPair) -> dict[str, Any]:
    return {
        "rank": pair.rank,
        "before": _rounded(asdict(pair.before)),
        "after": _rounded(asdict(pair.after)),
        "median": _difference(pair.median),
        "mean": _difference(pair.mean),
    }


def _part(part: StepPart) -> dict[str, Any]:
    return {
        "where": None if part.where is None else asdict(part.where),
        "called": part.called,
        "inside": part.inside,
        "phase": part.phase.value,
        "kind": part.kind,
        "on": part.on,
        "ranks": list(part.ranks),
        **_difference(part.difference),
    }


def _difference(one: TimeDifference) -> dict[str, Any]:
    return _rounded(
        {
            "before_s": one.before_s,
            "after_s": one.after_s,
            "grew_s": one.grew_s,
            "low_s": one.low_s,
            "high_s": one.high_s,
        }
    )


def _change(change: Change) -> dict[str, Any]:
    found = asdict(change)
    found.pop("because")
    return found


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 9) if isinstance(value, float) else value for name, value in values.items()}
