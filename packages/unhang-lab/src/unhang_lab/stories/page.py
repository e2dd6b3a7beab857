"""The fixes of all stories on one page, from the stories themselves.

``python -m unhang_lab.stories.page docs/stories.md docs/stories.zh-CN.md`` writes them between the page's markers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from unhang_lab.stories.story import Story, available_stories, stories_root, story_folder
from unhang_lab.stories.story_file import load_story
from unhang_lab.stories.table import fill_section

BEGIN, END = "<!-- fixes: python -m unhang_lab.stories.page -->", "<!-- end of fixes -->"


def fixes_page(lang: str, root: Path | None = None) -> str:
    """A section for each story that is there: its title, how it begins, the command, the patch to copy."""
    stories = (load_story(story_folder(name, root)) for name in available_stories(root))
    return "\n".join(_section(story, lang) for story in stories)


def _section(story: Story, lang: str) -> str:
    page = story.folder / ("README.zh-CN.md" if lang == "zh" else "README.md")
    patch = (story.folder / story.fixed.patch).read_text(encoding="utf-8").strip("\n")
    lines = [f"## {story.name}: {story.title.get(lang, story.title['en'])}", "", _first_paragraph(page), ""]
    lines += [f"`unhang demo {story.name}` · [{page.parent.name}](../stories/{story.name}/{page.name})", ""]
    if story.fixed.prepare or story.fixed.environment:
        typed = [f"export {name}={value}" for name, value in story.fixed.environment.items()]
        typed += [" ".join(words) for words in story.fixed.prepare]
        lines += ["```", *typed, "```"]
    return "\n".join([*lines, "```diff", patch, "```"]) + "\n"


def _first_paragraph(page: Path) -> str:
    """The lines below the heading, up to the first empty one; empty without such a page."""
    if not page.is_file():
        return ""
    below = page.read_text(encoding="utf-8").partition("\n")[2].lstrip("\n")
    return below.partition("\n\n")[0].strip()


def main(pages: list[str]) -> None:
    """Write the fixes into ``pages``; one with ``.zh`` in its name gets them in Chinese."""
    for name in pages:
        fill_section(Path(name), fixes_page("zh" if ".zh" in name else "en"), BEGIN, END)


if __name__ == "__main__":
    docs = stories_root().parent / "docs"
    main(sys.argv[1:] or [str(docs / "stories.md"), str(docs / "stories.zh-CN.md")])
