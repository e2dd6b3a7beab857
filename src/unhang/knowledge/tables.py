"""Read a TOML file of this room: rows that hold what they must, or a sentence that says which one does not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from unhang.errors import KnowledgeError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def rows_of(path: str, name: str, required: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """The rows ``[[name]]`` of ``path`` (below ``knowledge/``); top-level values are defaults of every row.

    Raises:
        KnowledgeError: the file is no TOML, has other tables, or a row lacks one of ``required``.
    """
    place = files("unhang.knowledge").joinpath(*path.split("/"))
    try:
        table = tomllib.loads(place.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise KnowledgeError(f"{path}: {error}") from error
    rows = table.pop(name, None)
    if not isinstance(rows, list) or any(isinstance(value, dict | list) for value in table.values()):
        raise KnowledgeError(f"{path} must hold rows [[{name}]] and plain values above them")
    for number, row in enumerate(rows, 1):
        whole = {**table, **row}
        lacking = [key for key in required if whole.get(key) in (None, "")]
        if lacking:
            raise KnowledgeError(f"{path}: row {number} ({next(iter(row.values()), '')}) has no {', '.join(lacking)}")
        yield whole
