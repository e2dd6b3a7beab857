"""``scripts/sentences.py``: the page on which every sentence can be read."""

from __future__ import annotations

import runpy
from pathlib import Path

from scripts.catalogue import missing_templates, source_templates


def test_the_page_has_every_sentence_beside_its_chinese() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "sentences.py"))
    rows = [row for _, rows in (*script["of_rows"](), *script["of_help"](), *script["of_code"]()) for row in rows]

    assert missing_templates("zh") == ()
    assert source_templates() <= {english for _, english, chinese in rows if chinese}
    assert all(part in script["page"]() for part in ("## knowledge/remedies.toml", "| help |", "| raises |"))


def test_every_sentence_was_read_in_both_languages() -> None:
    """A new or changed one is read, then marked: ``python -m scripts.sentences --unread`` lists what to read."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "sentences.py"))
    marked = script["marked"]()

    unread = {path: row for path, rows in script["rows_by_file"]() for row in rows if script["mark"](row) not in marked}

    assert unread == {}
