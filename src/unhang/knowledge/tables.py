"""Read a TOML file of this room: rows that hold what they must, or a sentence that says which one does not.

:func:`read_rows` reads plain rows, :func:`read_typed` a file whose rows have a type that says what they may hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import tomli

from unhang.errors import KnowledgeError

_ROOM = Path(__file__).parent
_Type = TypeVar("_Type")


def read_typed(path: str, kind: type[_Type], text: str | None = None) -> _Type:
    """The file ``path`` (below ``knowledge/``), or ``text`` in its place, as a ``msgspec`` structure of ``kind``.

    Raises:
        KnowledgeError: it is no TOML, or does not hold what ``kind`` says; the sentence names the place.
    """
    import msgspec  # most tables are read without it

    try:
        return msgspec.convert(tomli.loads(read_text(path) if text is None else text), kind)
    except (tomli.TOMLDecodeError, msgspec.ValidationError) as error:
        raise KnowledgeError(f"{path}: {error}") from error


def read_table(path: str, text: str | None = None) -> dict[str, Any]:
    """The file ``path`` (below ``knowledge/``), or ``text`` in its place, as plain tables in English.

    Raises:
        KnowledgeError: it is no TOML.
    """
    try:
        table = tomli.loads(read_text(path) if text is None else text)
    except tomli.TOMLDecodeError as error:
        raise KnowledgeError(f"{path}: {error}") from error
    return {key: _in_english(value) for key, value in table.items()}


def _in_english(value: Any) -> Any:
    """Of a sentence in every language (``knowledge/words.py``) the English one."""
    if isinstance(value, dict):
        return value["en"] if "en" in value else {key: _in_english(inner) for key, inner in value.items()}
    return [_in_english(inner) for inner in value] if isinstance(value, list) else value


def read_text(path: str) -> str:
    """What stands in the file ``path`` (below ``knowledge/``)."""
    return (_ROOM / path).read_text(encoding="utf-8")


def list_toml_files(folder: str) -> list[str]:
    """Names of the TOML files of a folder (below ``knowledge/``), in their order."""
    return sorted(place.name for place in (_ROOM / folder).glob("*.toml"))


def toml_files() -> list[str]:
    """Every TOML file below ``knowledge/``, by its path from there."""
    return sorted(place.relative_to(_ROOM).as_posix() for place in _ROOM.rglob("*.toml"))


def read_rows(path: str, name: str, required: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """The rows ``[[name]]`` of ``path`` (below ``knowledge/``); top-level values are defaults of every row.

    Raises:
        KnowledgeError: the file is no TOML, has other tables, or a row lacks one of ``required``.
    """
    table = read_table(path)
    rows = table.pop(name, None)
    if not isinstance(rows, list) or any(isinstance(value, dict | list) for value in table.values()):
        raise KnowledgeError(f"{path} must hold rows [[{name}]] and plain values above them")
    for number, row in enumerate(rows, 1):
        whole = {**table, **row}
        lacking = [key for key in required if whole.get(key) in (None, "")]
        if lacking:
            raise KnowledgeError(f"{path}: row {number} ({next(iter(row.values()), '')}) has no {', '.join(lacking)}")
        yield whole
