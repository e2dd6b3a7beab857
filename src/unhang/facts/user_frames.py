"""Tell the user's own code from the libraries it stands on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unhang.evidence.items import Frame
from unhang.findings import Where

_LIBRARY = re.compile(
    r"(^|/)(site-packages|dist-packages)/"
    r"|(^|/)lib/python3\.?\d*/"
    r"|(^|/)python3\.\d+/(?!.*/(?:site|dist)-packages/)[\w.]+\.py$"
    r"|(^|/)torch/(_|distributed/|nn/|autograd/|optim/|utils/|csrc/|multiprocessing/|cuda/|fx/)"
    r"|(^|/)unhang/lab/worker\.py$"
    r"|^<|^\?\?$|^$"
    r"|\.(so|cpp|cc|cu|c|h|hpp|pyx|rs)(\.\d+)*$"
)


def is_user_frame(frame: Frame) -> bool:
    """True for a Python frame of the user's own files."""
    return not frame.native and frame.line is not None and _LIBRARY.search(frame.file.replace("\\", "/")) is None


def first_user_frame(frames: Sequence[Frame]) -> Where | None:
    """The innermost frame of the user's own code (``frames`` innermost first), or None."""
    for frame in frames:
        if is_user_frame(frame):
            return Where(frame.file, frame.line, frame.function)
    return None


def user_frames(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Only the user's frames, in the same order."""
    return tuple(frame for frame in frames if is_user_frame(frame))
