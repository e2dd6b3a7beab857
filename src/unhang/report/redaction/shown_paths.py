"""Paths as evidence lists show them: without the folder all share, and libraries by their module path."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORTEST = 12
_LIBRARY_ROOT = re.compile(r"(?<![\w.])/[^\s()'\"<>:]*?/(?:site-packages|dist-packages)/")


def common_folder(paths: Iterable[str]) -> str:
    """The folder all ``paths`` lie in, with its slash; empty when it is short or they share none."""
    folders = [path.split("/")[:-1] for path in paths]
    if len(folders) < 2:
        return ""
    shared: list[str] = []
    for parts in zip(*folders, strict=False):  # to the shortest
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    folder = "/".join([*shared, ""])
    return folder if len(folder) >= SHORTEST else ""


def without_library_roots(text: str) -> str:
    """``text`` with ``/opt/env/lib/python3.11/site-packages/torch/x.py`` written ``torch/x.py``."""
    return _LIBRARY_ROOT.sub("", text) if "-packages/" in text else text
