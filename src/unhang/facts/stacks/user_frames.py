"""Tell the user's own code from the libraries it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unhang.evidence.items import Frame, SourceFile
from unhang.findings import Where
from unhang.knowledge.libraries import is_library_file, is_unknown_package
from unhang.program.syntax.syntax_tree import find_source


def is_user_frame(frame: Frame, sources: Mapping[str, SourceFile] | None = None) -> bool:
    """True for a Python frame of the user's own code: kept source decides, then where the file lies."""
    if frame.native or frame.line is None:
        return False
    if sources and find_source(sources, frame.file) is not None:
        return True
    return not is_library_file(frame.file)


def first_user_frame(frames: Sequence[Frame], sources: Mapping[str, SourceFile] | None = None) -> Where | None:
    """The innermost frame of the user's own code (``frames`` innermost first).

    When there is none (the program itself is installed), the innermost frame of a package nobody knows; None when
    there is not even that.
    """
    python = [frame for frame in frames if not frame.native and frame.line is not None]
    own = next((frame for frame in python if is_user_frame(frame, sources)), None)
    own = own or next((frame for frame in python if is_unknown_package(frame.file)), None)
    return Where(own.file, own.line, own.function) if own is not None else None
