"""Programs as texts with a mark on the line that is asked about."""

from __future__ import annotations

import textwrap

from unhang.evidence.items import SourceFile
from unhang.findings import Source


def source_of(text: str, path: str = "train.py") -> tuple[SourceFile, int]:
    """The program and the line that carries the mark ``# HERE``."""
    program = textwrap.dedent(text).lstrip("\n")
    line = next((n for n, row in enumerate(program.splitlines(), 1) if "# HERE" in row), 0)
    return SourceFile(Source(path), path, program), line
