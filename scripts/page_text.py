"""What pages made from the sources share: text in one of two languages, as Markdown shows it."""

from __future__ import annotations

import re

from unhang.report.language import translate_known

_CODE = re.compile(r"(`[^`]*`)")


def in_language(lang: str, english: str, chinese: str) -> str:
    """The one of two texts."""
    return chinese if lang == "zh" else english


def known(text: str, lang: str) -> str:
    """A sentence of ``knowledge/`` in ``lang``; what looks like HTML is shown as it is."""
    parts = _CODE.split(translate_known(text, lang))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def table_cell(text: str) -> str:
    """``text`` on one line, without what ends a cell."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
