"""Where the program called a guard, and whether its source lets every rank get there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from unhang.wire.record_views import CodeLine

if TYPE_CHECKING:
    from unhang.evidence.items import SourceFile

SOURCE_BYTES = 1 << 20
MAX_FRAMES = 12
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STANDARD = os.path.dirname(os.__file__)  # noqa: PTH120
_NOT_THE_CALLER = ("unhang.", "contextlib", "threading")


def calling_frame() -> FrameType:
    """The first frame of the program itself; where all is installed (``python -m package``), the first outside of this
    package. A trainer of a library that calls a guard is called by the program in turn."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect reads source files; this runs at every call
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_NOT_THE_CALLER):
        frame = frame.f_back
    first: FrameType = frame
    caller: FrameType | None = frame
    while caller is not None and not _is_user_file(caller.f_code.co_filename):
        caller = caller.f_back
    return first if caller is None else caller


def called_from() -> str:
    """``file:line`` of the program's call into this package."""
    frame = calling_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def branch_on_rank() -> tuple[CodeLine, str] | None:
    """The line that lets only some ranks reach this call, and its test, as far as the source tells. Only for errors."""
    from unhang.facts.stacks.source_context import is_rank_conditional

    frame: FrameType | None = calling_frame()
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        file = read_source(frame.f_code.co_filename)
        branch = file and is_rank_conditional(file, frame.f_lineno, function=frame.f_code.co_name)
        if file and branch:
            return CodeLine(file.path, branch.line), f"{branch.kind} {branch.test}"
        frame = frame.f_back
    return None


def _is_user_file(path: str) -> bool:
    """Whether ``path`` is the program's own file: neither installed, nor of Python, nor made up."""
    return not any(part in path for part in _INSTALLED) and not path.startswith(("<", _STANDARD))


def innermost_user_line(frame: FrameType | None) -> CodeLine | None:
    """The innermost line of the program's own code, as far as paths tell."""
    innermost: CodeLine | None = None
    while frame is not None:
        here = CodeLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        innermost = innermost or here
        if _is_user_file(here.file):
            return here
        frame = frame.f_back
    return innermost


def stack_of(frame: FrameType | None) -> str:
    """The last calls of a thread as Python prints them, innermost last."""
    import traceback

    return "".join(traceback.format_stack(frame)[-MAX_FRAMES:]).rstrip()


def read_source(path: str) -> SourceFile | None:
    """The file ``path`` of a program; None where it cannot be read, or is too large to be a source file."""
    from unhang.evidence.items import SourceFile
    from unhang.findings import Source

    try:
        if Path(path).stat().st_size > SOURCE_BYTES:
            return None
        return SourceFile(Source(path), path, Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
