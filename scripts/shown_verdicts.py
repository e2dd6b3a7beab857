"""The verdicts that the pages for users show, and the picture of one, as the tool gives them now.

``python -m scripts.shown_verdicts`` writes them anew; a test keeps them current. In a page, a comment says what follows
it: ``<!-- unhang diagnose INPUT: head -->`` (up to the first empty line), or ``whole``, or ``3 lines``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "docs" / f"{name}{ending}" for name in ("quickstart", "reading-a-verdict") for ending in (".md", ".zh-CN.md")
]
PICTURES = {ROOT / "docs" / "images" / "verdict.svg": "en", ROOT / "docs" / "images" / "verdict.zh-CN.svg": "zh"}
OF_THE_DEMO = "tests/cases/uneven-data/hit_lab_split_without_seed/input"
"""The job that ``make demo`` runs, kept as a case."""
PICTURED_LINES = 21
LOG_TIME_S = 1795262400.0
"""21 November 2026: lines of a log carry no year, so its file's is taken."""
_SHOWN = re.compile(r"(<!-- unhang diagnose (\S+): (\w+)[^>]*-->\n```\w*\n).*?(^```$)", re.DOTALL | re.MULTILINE)
_CELL, _ROW, _EDGE = 9.6, 20, 16
"""Width of a character, height of a line, and the margin of the picture, in pixels."""
_HUES = ("#98a2b0", "#f28b82", "#8fd694", "#f0c86e", "#8ab4f8", "#d6a0f5", "#7fd5dc", "#dde2e9")
"""Of the terminal's eight colours."""
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<desc>{words}</desc>
<style>text {{ font: 16px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #dde2e9 }}
.bold {{ font-weight: bold }} .dim {{ fill: #98a2b0 }} {hues}</style>
<rect width="{width}" height="{height}" rx="8" fill="#181b20"/>
{rows}
</svg>
"""


def said(named: str, lang: str, *options: str) -> str:
    """What ``unhang diagnose`` prints of ``named``, a path in this repository, 80 columns wide."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (ROOT / named).is_file():
            (folder / named).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / named, folder / named)
            os.utime(folder / named, (LOG_TIME_S, LOG_TIME_S))
        else:
            folder = ROOT
        code = "from unhang.cli.main import main; main()"
        words = [sys.executable, "-c", code, "diagnose", named, "--lang", lang, *options]
        paths = os.pathsep.join(str(ROOT / one) for one in ("src", "packages/unhang-lab/src"))
        env = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "80", "TERM": "xterm-256color"}
        return subprocess.run(words, cwd=folder, env=env, check=False, capture_output=True, text=True).stdout


def filled(page: str, lang: str) -> str:
    """``page`` with its verdicts as they are now."""

    def now(found: re.Match[str]) -> str:
        whole = said(found[2], lang)
        shown = {"whole": whole, "head": whole.partition("\n\n")[0] + "\n"}
        return found[1] + (shown.get(found[3]) or "".join(whole.splitlines(keepends=True)[: int(found[3])])) + found[4]

    return _SHOWN.sub(now, page)


def picture(lang: str) -> str:
    """The first lines of the verdict on the job of the demo, as a terminal shows them."""
    lines = said(OF_THE_DEMO, lang, "--color", "always").splitlines()[:PICTURED_LINES]
    shown = [Text.from_ansi(line) for line in ["unhang diagnose unhang-runs/demo", "", *lines]]
    return _SVG.format(
        width=round(80 * _CELL + 2 * _EDGE),
        height=len(shown) * _ROW + 2 * _EDGE,
        words=escape("\n".join(text.plain for text in shown)),
        hues=" ".join(f".c{number} {{ fill: {hue} }}" for number, hue in enumerate(_HUES)),
        rows="\n".join(_pieces(text, _EDGE + row * _ROW + 15) for row, text in enumerate(shown)),
    )


def _pieces(line: Text, y: int) -> str:
    """The words of a line, each piece of one style at its place: glyphs of other fonts may be wider than a cell."""
    console, x, pieces = Console(width=400), 0, []
    for text, style, _ in line.render(console):
        cells = cell_len(text)
        if text.strip():
            worn = style or Style()
            kinds = [name for name in ("bold", "dim") if getattr(worn, name)]
            kinds += [f"c{worn.color.number % 8}"] if worn.color and worn.color.number is not None else []
            wide = f'x="{_EDGE + x * _CELL:g}" y="{y}" textLength="{cells * _CELL:g}"'
            pieces.append(f'<text {wide} class="{" ".join(kinds)}">{escape(text).replace(" ", "&#160;")}</text>')
        x += cells
    return "".join(pieces)


if __name__ == "__main__":
    for path in filter(Path.exists, PAGES):
        path.write_text(filled(path.read_text("utf-8"), "zh" if ".zh" in path.name else "en"), "utf-8")
    for path, language in PICTURES.items():
        path.write_text(picture(language), "utf-8")
