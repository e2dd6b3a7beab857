"""Why data differs between ranks: the split or shuffle in the caller's own source that has no seed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from unhang.guards.call_site import read_source
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits_in_file

_MAX_FILES = 40
_NOT_THEIRS = (
    *("site-packages", "dist-packages", "/lib/python3", "<frozen", "<string"),
    *("unhang/guards", "unhang/integrations"),
)


def unseeded_splits(frame: FrameType | None) -> list[str]:
    """One sentence a place where the program splits or shuffles without a common seed; at most three.

    Looks at the files of the calling frames first, then at modules beside the nearest of them.
    """
    said: list[str] = []
    for path in _files(frame):
        file = read_source(path)
        for split in unseeded_splits_in_file(file) if file is not None else ():
            said.append(_sentence(Path(path).name, split))
            if len(said) == 3:
                return said
    return said


def _files(frame: FrameType | None) -> Iterator[str]:
    seen: dict[str, None] = {}
    while frame is not None and len(seen) < _MAX_FILES:
        seen[frame.f_code.co_filename] = None
        frame = frame.f_back
    theirs = [path for path in seen if not any(part in path for part in _NOT_THEIRS)]
    yield from theirs
    if not theirs:
        return
    around = str(Path(theirs[0]).parent)
    for module in list(sys.modules.values())[::-1]:
        path = getattr(module, "__file__", None) or ""
        if path.startswith(around) and path.endswith(".py") and path not in seen and len(seen) < _MAX_FILES:
            seen[path] = None
            if not any(part in path for part in _NOT_THEIRS):
                yield path


def _sentence(name: str, split: UnseededSplit) -> str:
    call = f"{split.call.lstrip('.')} at {name}:{split.line}"
    if split.why == "seed-differs":
        return f"{call} is seeded differently on every rank: give it a seed that does not depend on the rank"
    if split.why == "hash-order":
        return f"{call} has a different order in every process: sort it ({split.with_seed})"
    return f"{call} has no seed, so every rank draws its own: give it the same one everywhere ({split.with_seed})"
