"""Every sentence that a user can see, on one page: by the file it stands in, with its Chinese and whether it was read.

python -m scripts.sentences > sentences.md       all of them
python -m scripts.sentences --unread             those that nobody has read in both languages since they changed
python -m scripts.sentences --read FILE …        marks those of these files as read, after you did
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import tomli

from scripts.catalogue import error_templates_in, help_texts, numbered_template, template_folders
from unhang.knowledge.tables import read_text, toml_files
from unhang.report.language import LOCALE_ROOT, catalogue, error_catalogue

HEAD = """# Every sentence a user can see

`{name}` is filled in. Rows stand in `src/unhang/knowledge/`, the Chinese of code stands in `src/unhang/report/locale/`.
What has no Chinese is shown in English only: what guards raise, and mistakes in our own rows.
"""
MARKS = Path(__file__).with_name("sentences_read.txt")
"""A mark a line for each pair of an English and a Chinese sentence that somebody read."""
Row = tuple[str, str, str]
"""Id or kind, English, Chinese."""


def of_rows() -> Iterator[tuple[str, list[Row]]]:
    """Of each file of rows the sentences that have more than one language, by the name of their row."""
    for path in toml_files():
        rows = list(_of_table("", tomli.loads(read_text(path))))
        if rows:
            yield f"knowledge/{path}", rows


def _of_table(name: str, value: Any) -> Iterator[Row]:
    if isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _of_table(f"{name}.{_own_name(inner) or number}", inner)
    elif isinstance(value, dict) and "en" in value:
        yield name.lstrip("."), value["en"], value.get("zh", "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _of_table(f"{name}.{key}", inner)


def _own_name(row: Any) -> str:
    """How a row of a list is called in its file."""
    if not isinstance(row, dict):
        return ""
    known = next((row[key] for key in ("id", "name", "code", "names", "says") if key in row), "")
    return str(known[0] if isinstance(known, list) else known)


def of_code() -> Iterator[tuple[str, list[Row]]]:
    """Of each module what it says and raises."""
    chinese, errors = catalogue("zh"), error_catalogue("zh")
    for folder in template_folders():
        for path in sorted(folder.rglob("*.py")):
            rows = list(dict.fromkeys(_of_module(ast.parse(path.read_text(encoding="utf-8")), chinese, errors)))
            if rows:
                yield path.relative_to(folder.parent).as_posix().removeprefix("unhang/"), rows


def of_help() -> Iterator[tuple[str, list[Row]]]:
    """The help of all commands, and what their parser and the system say."""
    chinese = catalogue("zh")
    yield "help", [("help", text, chinese.get(text, "")) for text in dict.fromkeys(help_texts())]
    others = tomli.loads((LOCALE_ROOT / "errors" / "zh.toml").read_text(encoding="utf-8"))["others"]
    yield "errors of others", [("says", english, said) for english, said in others.items()]


def _of_module(tree: ast.Module, chinese: Any, errors: Any) -> Iterator[Row]:
    yield from (("raises", template, errors[template]) for template in error_templates_in(tree) if template in errors)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say" and node.args:
            template = _literal(node.args[0])
            yield "says", template, chinese.get(template, "")
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = node.exc.args[0]
            yield from () if numbered_template(text) in errors else [("raises", _literal(text), "")]


def _literal(node: ast.expr) -> str:
    """The text of a literal; of an f-string with its places; empty where it is put together elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined, misc]
            for part in node.values
        )
    return ""


def rows_by_file() -> Iterator[tuple[str, list[Row]]]:
    """Of each file the rows that are sentences."""
    for path, rows in (*of_rows(), *of_help(), *of_code()):
        sentences = [row for row in rows if " " in row[1] or row[2]]
        if sentences:
            yield path, sentences


def mark(row: Row) -> str:
    """What stays the same while both languages of ``row`` do."""
    return sha256(f"{row[1]}\0{row[2]}".encode()).hexdigest()[:10]


def marked() -> frozenset[str]:
    """The marks of all rows that were read."""
    return frozenset(MARKS.read_text(encoding="ascii").split())


def mark_as_read(files: Collection[str]) -> None:
    """Write down that the rows of ``files`` were read; marks of sentences that are gone go."""
    found = [(path, mark(row)) for path, rows in rows_by_file() for row in rows]
    unknown = sorted(set(files) - {path for path, _ in found})
    if unknown:
        raise SystemExit(f"no sentences in {', '.join(unknown)}: name files as the page does")
    before = marked()
    MARKS.write_text(
        "".join(f"{one}\n" for one in sorted({one for path, one in found if path in files or one in before}))
    )


def page(*, unread_only: bool = False) -> str:
    """The page; with ``unread_only`` the rows without a mark."""
    before, parts = marked(), [HEAD]
    for path, rows in rows_by_file():
        said = [
            f"| {' | '.join(map(_cell, row))} | {'read' if mark(row) in before else ''} |"
            for row in rows
            if not (unread_only and mark(row) in before)
        ]
        if said:
            parts.append("\n".join([f"## {path}", "", "| | English | 中文 | |", "|---|---|---|---|", *said, ""]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--unread", action="store_true", help="only rows that nobody has read as they are now")
    arguments.add_argument("--read", nargs="+", metavar="FILE", default=(), help="mark the rows of these files as read")
    chosen = arguments.parse_args()
    if chosen.read:
        mark_as_read(chosen.read)
    else:
        print(page(unread_only=chosen.unread))
