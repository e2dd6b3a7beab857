"""Every sentence that a user can see, on one page: by the file it stands in, with its Chinese.

python -m scripts.sentences > sentences.md
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import tomli

from scripts.catalogue import template_folders
from unhang.knowledge.tables import read_text, toml_files
from unhang.report.language import catalogue

HEAD = """# Every sentence a user can see

`{name}` is filled in. Rows stand in `src/unhang/knowledge/`, the Chinese of code stands in `src/unhang/report/locale/`.
What has no Chinese is shown in English only: errors, what guards raise.
"""
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
    """Of each module what it says, raises and explains in its help."""
    chinese = catalogue("zh")
    for folder in template_folders():
        for path in sorted(folder.rglob("*.py")):
            rows = list(dict.fromkeys(_of_module(ast.parse(path.read_text(encoding="utf-8")), chinese)))
            if rows:
                yield path.relative_to(folder.parent).as_posix().removeprefix("unhang/"), rows


def _of_module(tree: ast.Module, chinese: Any) -> Iterator[Row]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say" and node.args:
            template = _literal(node.args[0])
            yield "says", template, chinese.get(template, "")
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield "raises", _literal(node.exc.args[0]), ""
        elif isinstance(node, ast.keyword) and node.arg == "help":
            text = _literal(node.value)
            yield "help", text, chinese.get(text, "")


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


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for path, rows in (*of_rows(), *of_code()):
        said = [f"| {' | '.join(map(_cell, row))} |" for row in rows if " " in row[1] or row[2]]
        if said:
            parts.append("\n".join([f"## {path}", "", "| | English | 中文 |", "|---|---|---|", *said, ""]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


if __name__ == "__main__":
    print(page())
