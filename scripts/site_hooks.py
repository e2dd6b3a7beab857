"""What `make docs` does to a page of ``docs/`` before it becomes one of the site (``mkdocs.yml``).

The pages are read in the repository too. There a line leads to the other language, which the site does at its head, and
links lead to files that are no pages: of these the site shows the name.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_OTHER_LANGUAGE = re.compile(r"\[(?:中文|English)\]\([\w./-]+\)(?: · )?\n*")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((\.\./[^)\s]*)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page without the line to its other language and without links to what is not on the site."""
    folder = posixpath.dirname(page.file.src_uri)

    def stays(link: re.Match[str]) -> str:
        inside = not posixpath.normpath(posixpath.join(folder, link[2])).startswith("..")
        return link[0] if inside else link[1]

    return _LINK.sub(stays, _OTHER_LANGUAGE.sub("", markdown, count=1))
