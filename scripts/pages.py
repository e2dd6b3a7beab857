"""Pages of ``docs/`` that are made from the sources, in both languages.

    python -m scripts.pages

Tests say which of them is not what it would write (``tests/test_docs.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scripts.cause_pages import cause_pages
from scripts.environment_page import environment_page
from scripts.house import HERE
from scripts.messages_page import messages_page

DOCS = HERE / "docs"


def made_pages() -> Iterator[tuple[Path, str]]:
    """Each page with its text."""
    for lang, ending in (("en", ".md"), ("zh", ".zh-CN.md")):
        for name, text in (
            *cause_pages(lang),
            ("environment-variables", environment_page(lang)),
            ("messages", messages_page(lang)),
        ):
            yield DOCS / f"{name}{ending}", text


def write_pages() -> None:
    """Write all of them; a page of a cause that is no more goes."""
    pages = dict(made_pages())
    for old in {*(DOCS / "causes").glob("*.md")} - {*pages}:
        old.unlink()
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages()
