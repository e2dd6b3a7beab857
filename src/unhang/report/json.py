"""The verdict as one JSON object (``--format json``)."""

from __future__ import annotations

import msgspec

from unhang.findings import Verdict
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.report.verdict_document import verdict_document


def to_json(verdict: Verdict, *, lang: str = "en", redactor: Redactor | None = None) -> str:
    """``verdict`` as one indented JSON object with a newline at its end (schema ``unhang.verdict/1``)."""
    localizer = Localizer(lang, redactor or Redactor())
    localizer.redactor.learn_from(verdict)
    encoded = msgspec.json.encode(verdict_document(verdict, localizer))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"
