"""The pages for people: links and anchors lead somewhere, command lines are understood, both languages are there, and
what is made from the sources is what they make of it now.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.main import get_command

from scripts.house import HERE
from scripts.pages import made_pages
from scripts.site_hooks import on_page_markdown, on_post_build, on_post_page
from unhang.cli.command_line import command_line
from unhang.cli.options import current_name

DOCS = HERE / "docs"
NOT_ON_THE_SITE = {"images/README.md"}
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).as_posix() not in NOT_ON_THE_SITE)
READ = [*PAGES, HERE / "README.md", HERE / "README.zh-CN.md", HERE / "CONTRIBUTING.md"]
MAKERS = "For makers"
"""The part of the site whose pages may be in English only."""
SHELLS = {"", "console", "sh", "bash", "shell", "yaml"}


def name_of(page: Path) -> str:
    return page.relative_to(HERE).as_posix()


@cache
def tokens_of(page: Path) -> tuple[Token, ...]:
    found = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    return tuple(inner for token in found for inner in (token, *(token.children or ())))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Names of the headings of a page, as GitHub and the site make them."""
    tokens, seen, found = tokens_of(page), Counter[str](), set()
    for token, inner in pairwise(tokens):
        if token.type == "heading_open":
            text = "".join(part.content for part in inner.children or () if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return frozenset(found)


def links_of(page: Path) -> Iterator[str]:
    for token in tokens_of(page):
        if token.type in ("link_open", "image"):
            yield str(token.attrs["href" if token.type == "link_open" else "src"])
        elif token.type in ("html_block", "html_inline"):
            yield from re.findall(r'(?:href|src)="([^"]+)"', token.content)


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    assert [link for link in links_of(page) if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return link.startswith(("https://", "http://", "mailto:"))
    path, _, anchor = unquote(link).partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors_of(target.resolve()))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_stays_in_its_language(page: Path) -> None:
    """A Chinese page leads to Chinese pages where there are any; only to its own English one it leads at its head."""
    if not page.name.endswith(".zh-CN.md"):
        return
    paths = {link.partition("#")[0] for link in links_of(page)}
    english = {path for path in paths if path.endswith(".md") and not path.endswith(".zh-CN.md")}

    left = {path for path in english if (page.parent / path.replace(".md", ".zh-CN.md")).exists()}
    assert left == {page.name.replace(".zh-CN", "")}


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words behind each ``unhang`` of the page's blocks and code."""
    for token in tokens_of(page):
        if token.type == "fence" and token.info.split(" ")[0] in SHELLS:
            for line in token.content.replace("\\\n", " ").splitlines():
                yield from _calls(line)
        elif token.type == "code_inline":
            yield from _calls(token.content)


def _calls(line: str) -> Iterator[list[str]]:
    cut = re.sub(r"(?:^|\s)#\s.*$", "", line.strip()).removeprefix("$ ")
    split = shlex.shlex(cut, posix=True, punctuation_chars=";|&<>()")
    split.whitespace_split = True
    try:
        words = list(split)
    except ValueError:  # a quote inside of what somebody says
        words = cut.split()
    for place, word in enumerate(words):
        if word == "unhang" and (place == 0 or words[place - 1] not in ("import", "cd", "install")):
            rest = words[place + 1 :]
            ends = [end for end, one in enumerate(rest) if one and not one.strip(";|&<>()")]
            called = rest[: ends[0]] if ends else rest
            if place == 0 or not words[place - 1].strip(";|&()") or " ".join(called[:1]) in verbs():
                yield called  # elsewhere it may stand in a sentence


@cache
def verbs() -> dict[str, Any]:
    whole: Any = get_command(command_line())
    inner = {
        f"{name} {one}": command
        for name, group in whole.commands.items()
        for one, command in getattr(group, "commands", {}).items()
    }
    return {"": whole, **whole.commands, **inner}


def not_understood(words: list[str]) -> str | None:
    """What of a command line its verb does not know; None where all is well."""
    if not words or words[0].startswith("-"):
        return _unknown_option(words, "", "diagnose")  # what is piped in is diagnosed
    for count in (2, 1):
        if " ".join(words[:count]) in verbs():
            return _unknown_option(words[count:], " ".join(words[:count]))
    if words == ["failed", "there"]:  # what a verdict says where unhang itself failed
        return None
    if re.search(r"[./*…<]|^[A-Z_]+$", words[0]):  # a path in place of a verb
        return _unknown_option(words, "diagnose")
    return words[0]


def _unknown_option(words: list[str], *takes: str) -> str | None:
    known = {name: param for verb in takes for param in verbs()[verb].params for name in param.opts}
    known |= {"--help": None, "-h": None}
    left = iter(words)
    for word in left:
        if word == "--" or (not word.startswith("-") and {"run", "ramp"} & {*takes}):
            return None
        name, joined, _ = word.partition("=")
        if not name.startswith("-") or re.fullmatch(r"-\d*", name) or name == "--no-color":
            continue
        name = name if name in known else current_name(name)
        if name not in known:
            return word
        needs_word = known[name] is not None and not known[name].is_flag and name != "--patch"
        if needs_word and not joined:
            next(left, "")
    return None


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_command_lines_are_understood(page: Path) -> None:
    assert {(" ".join(words), wrong) for words in command_lines(page) if (wrong := not_understood(words))} == set()


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_targets_of_make_and_modules_are_there(page: Path) -> None:
    code = "\n".join(token.content for token in tokens_of(page) if token.type in ("fence", "code_inline"))
    targets = {*re.findall(r"^([\w-]+):", (HERE / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)}
    modules = {*re.findall(r"python3? -m ((?:benchmarks|scripts|tests|unhang)[\w.]*\w)", code)}

    assert {*re.findall(r"^(?:\$ )?make ([a-z-]+)", code, re.MULTILINE)} <= targets
    assert [module for module in modules if find_spec(module) is None] == []


@pytest.mark.parametrize(
    "wrong",
    [
        ["diagnoze", "x"],
        ["diagnose", "x", "--htlm", "y"],
        ["check", "--dryrun", "--", "torchrun", "--nproc"],
        ["run", "--captur", "--", "x"],
    ],
)
def test_a_command_line_that_is_not_understood_is_named(wrong: list[str]) -> None:
    assert not_understood(wrong)


def site() -> Any:
    class Loader(yaml.SafeLoader):
        """Names of Python stay as they are."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    return yaml.load((HERE / "mkdocs.yml").read_text(encoding="utf-8"), Loader)


def titled(nav: list[Any], part: str = "") -> Iterator[tuple[str, str, str]]:
    """(part, title, page) of every entry."""
    for entry in nav:
        for title, inner in entry.items() if isinstance(entry, dict) else [("", entry)]:
            if isinstance(inner, list):
                yield from titled(inner, title)
            else:
                yield part, title, inner


def test_every_page_is_on_the_site_once_and_in_chinese_unless_it_is_for_makers() -> None:
    entries = list(titled(site()["nav"]))
    pages = [page for _, _, page in entries]
    english = {page.relative_to(DOCS).as_posix() for page in PAGES if not page.name.endswith(".zh-CN.md")}
    for_users = [page for part, _, page in entries if part != MAKERS]

    assert Counter(pages) == Counter(english)
    assert [page for page in for_users if not (DOCS / page.replace(".md", ".zh-CN.md")).exists()] == []
    assert [page for page in PAGES if not page.with_name(page.name.replace(".zh-CN", "")).exists()] == []


def test_the_site_has_chinese_for_each_of_its_titles() -> None:
    config = site()
    (plugin,) = [one["i18n"] for one in config["plugins"] if "i18n" in one]
    chinese = plugin["languages"][1]["nav_translations"]
    titles = {part for part, _, _ in titled(config["nav"])}
    titles |= {title for part, title, _ in titled(config["nav"]) if part != MAKERS}

    assert {title for title in titles if title and not re.fullmatch(r"[a-z0-9, -]+", title)} == {*chinese}


def test_the_site_fetches_nothing() -> None:
    config = (HERE / "mkdocs.yml").read_text(encoding="utf-8")

    assert "://" not in config
    assert site()["theme"]["font"] is False
    assert all((DOCS / file).is_file() for file in (*site()["extra"]["polyfills"], *site()["extra_css"]))


def test_made_pages_are_as_the_sources_make_them() -> None:
    made = dict(made_pages())
    stale = [name_of(page) for page, text in made.items() if not page.exists() or page.read_text("utf-8") != text]

    assert stale == [], "python -m scripts.pages writes them"
    assert {*(DOCS / "causes").glob("*.md")} <= {*made}


def test_a_page_of_the_site_has_no_links_out_of_it() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="causes/x.md"))
    text = "# X\n\n[中文](x.zh-CN.md)\n\n[case](../../tests/cases/x) [run](../run.md#a) ![p](../images/p.png)\n"

    assert on_page_markdown(text, page) == "# X\n\ncase [run](../run.md#a) ![p](../images/p.png)\n"


def test_each_language_is_searched_by_itself(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    docs = [{"location": "run.html", "title": "run"}, {"location": "zh-CN/run.html", "title": "run"}]
    (tmp_path / "search" / "search_index.json").write_text(json.dumps({"config": {}, "docs": docs}))
    on_post_build(SimpleNamespace(site_dir=str(tmp_path)))

    for folder in ("", "zh-CN"):
        index = json.loads((tmp_path / folder / "search" / "search_index.json").read_text())
        assert index == {"config": {}, "docs": [{"location": "run.html", "title": "run"}]}
        assert (tmp_path / folder / "search" / "search_index.js").read_text().startswith("var __index = {")
    bases = [
        on_post_page(f'"base": "{base}"', SimpleNamespace(url=url))
        for base, url in [("..", "causes/x.html"), ("..", "zh-CN/run.html"), ("../..", "zh-CN/causes/x.html")]
    ]
    assert bases == ['"base": ".."', '"base": "."', '"base": ".."']
