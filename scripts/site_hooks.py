"""What `make docs` does beside mkdocs and its plugins (``mkdocs.yml``) to make a site of ``docs/``.

The pages are read in the repository too. There a line leads to the other language, which the site does at its head, and
links lead to files that are no pages: of these the site shows the name. Each language is searched by itself.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

CHINESE = "zh-CN/"
"""Where the Chinese pages are on the site."""
_OTHER_LANGUAGE = re.compile(r"\[(?:中文|English)\]\([\w./-]+\)(?: · )?\n*")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((\.\./[^)\s]*)\)")
_BASE = re.compile(r'("base": ")\.\.(?:/(\.\.))?')


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page without the line to its other language and without links to what is not on the site."""
    folder = posixpath.dirname(page.file.src_uri)

    def stays(link: re.Match[str]) -> str:
        inside = not posixpath.normpath(posixpath.join(folder, link[2])).startswith("..")
        return link[0] if inside else link[1]

    return _LINK.sub(stays, _OTHER_LANGUAGE.sub("", markdown, count=1))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """A Chinese page looks for its index, and for what is found, in the folder of the Chinese pages."""
    if not page.url.startswith(CHINESE):
        return output
    return _BASE.sub(lambda base: f"{base[1]}{base[2] or '.'}", output, count=1)


def on_post_build(config: Any, **_: Any) -> None:
    """Part the index by language. The last of the plugins has written it."""
    root = Path(config.site_dir)
    index = json.loads((root / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {"": [], CHINESE: []}
    for entry in index["docs"]:
        folder = CHINESE if entry["location"].startswith(CHINESE) else ""
        found[folder].append({**entry, "location": entry["location"].removeprefix(folder)})
    for folder, entries in found.items():
        to = root / folder / "search"
        to.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**index, "docs": entries}, ensure_ascii=False, separators=(",", ":"))
        (to / "search_index.json").write_text(text, encoding="utf-8")
        (to / "search_index.js").write_text(f"var __index = {text}", encoding="utf-8")


on_post_build.mkdocs_priority = -200  # type: ignore[attr-defined]
