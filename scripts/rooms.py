"""The table of folders in docs/architecture.md, from the first line of every package.

python scripts/rooms.py [--check]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = (ROOT / "src", ROOT / "packages" / "unhang-lab" / "src")
BEGIN, END = "<!-- folders -->\n", "<!-- end of folders -->"


def folders() -> Iterator[tuple[str, str]]:
    """Every package that says what it holds, with its sentence."""
    for source in SOURCES:
        for file in sorted(source.glob("*/**/__init__.py"), key=lambda file: file.parent.as_posix()):
            sentence = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
            if sentence and file.parent != source / "unhang":
                yield file.parent.relative_to(source).as_posix().removeprefix("unhang/"), sentence


def table() -> str:
    """Rows of the page; inner folders follow their room."""
    rows = (f"| `{name}/` | {sentence.replace('``', '`')} |" for name, sentence in folders())
    return "\n".join(["| folder | what is in it |", "|---|---|", *rows, ""])


def main() -> int:
    """Write the table, or say with ``--check`` whether it is as it should be."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    new = f"{head}{BEGIN}{table()}{END}{rest.partition(END)[2]}"
    if "--check" in sys.argv[1:]:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
