"""The passes and the grades in docs/reasoning.md, from what runs.

python scripts/reasoning.py [--check]
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from unhang.diagnosis.detectors import ask_detectors
from unhang.diagnosis.diagnose import PASSES
from unhang.knowledge.reasoning_rows import grade_rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reasoning.md"


def passes() -> Iterator[str]:
    """One item a pass: where it stands, and its docstring."""
    for number, run in enumerate((ask_detectors, *(step.run for step in PASSES)), 1):
        said = inspect.getdoc(run) or ""
        place = run.__module__.removeprefix("unhang.").replace(".", "/")
        yield f"{number}. `{place}.py` (`{run.__name__}`):\n" + _indented(said.replace("``", "`"))


def _indented(text: str) -> str:
    return "".join(f"   {line}".rstrip() + "\n" for line in text.splitlines())


def grades() -> Iterator[str]:
    """The rows of ``knowledge/reasoning/grades.toml``."""
    yield "| grade | rests on | whole | not whole |\n|---|---|---|---|\n"
    for grade, row in grade_rows().items():
        yield f"| `{grade.name}` | {row.rests_on} | {row.whole.value} | {row.not_whole.value} |\n"


def page(text: str) -> str:
    """``text`` with what stands between the marks as it should be."""
    for name, lines in (("grades", grades()), ("passes", passes())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}{''.join(lines)}{end}{rest.partition(end)[2]}"
    return text


def main() -> int:
    """Write the page, or say with ``--check`` whether it is as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        return int(page(text) != text)
    PAGE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
