"""Read a TOML file of this room: rows that hold what they must, or a sentence that says which one does not.

:func:`read_rows` and :func:`rows_by` read rows that are alike, :func:`read_typed` a file of several kinds of rows; by
types that say what they may hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import tomli

from unhang.errors import KnowledgeError

_ROOM = Path(__file__).parent
_Type = TypeVar("_Type")


def read_typed(path: str, kind: type[_Type], text: str | None = None, *, in_english: bool = False) -> _Type:
    """The file ``path`` (below ``knowledge/``), or ``text`` in its place, as a ``msgspec`` structure of ``kind``; of a
    sentence in every language ``in_english`` keeps the English one.

    Raises:
        KnowledgeError: it is no TOML, or does not hold what ``kind`` says; the sentence names the place.
    """
    import msgspec  # some tables are read without it

    try:
        table = read_table(path, text) if in_english else tomli.loads(read_text(path) if text is None else text)
        return msgspec.convert(table, kind)
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
    """Of a sentence in every language (``knowledge/words.py``) the English one; a date as it is written."""
    if isinstance(value, dict):
        return value["en"] if "en" in value else {key: _in_english(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_english(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value


def read_text(path: str) -> str:
    """What stands in the file ``path`` (below ``knowledge/``)."""
    return (_ROOM / path).read_text(encoding="utf-8")


def list_toml_files(folder: str) -> list[str]:
    """Names of the TOML files of a folder (below ``knowledge/``), in their order."""
    return sorted(place.name for place in (_ROOM / folder).glob("*.toml"))


def toml_files() -> list[str]:
    """Every TOML file below ``knowledge/``, by its path from there."""
    return sorted(place.relative_to(_ROOM).as_posix() for place in _ROOM.rglob("*.toml"))


def read_rows(path: str, name: str, kind: type[_Type]) -> tuple[_Type, ...]:
    """The rows ``[[name]]`` of ``path`` (below ``knowledge/``), each a dataclass of ``kind``; top-level values are
    defaults of every row. They are read once. ``source`` and ``checked`` are for who corrects a row, and need no field.

    Raises:
        KnowledgeError: the file is no TOML, has other tables, or a row does not hold what ``kind`` says.
    """
    rows: tuple[_Type, ...] = _rows(path, name, kind)  # type: ignore[arg-type]  # a class can be hashed
    return rows


def rows_by(key: str, path: str, name: str, kind: type[_Type]) -> Mapping[Any, _Type]:
    """The rows of :func:`read_rows` by what stands in their field ``key``, by each of it where that is a list.

    Raises:
        KnowledgeError: as :func:`read_rows`; or it stands in two rows.
    """
    rows: Mapping[Any, _Type] = _rows_by(key, path, name, kind)  # type: ignore[arg-type]  # as above
    return rows


@cache
def _rows(path: str, name: str, kind: Any) -> tuple[Any, ...]:
    table = read_table(path)
    rows = table.pop(name, None)
    if not isinstance(rows, list) or any(isinstance(value, dict | list) for value in table.values()):
        raise KnowledgeError(f"{path} must hold rows [[{name}]] and plain values above them")
    return typed_rows(path, rows, kind, table)


@cache
def _rows_by(key: str, path: str, name: str, kind: Any) -> Mapping[Any, Any]:
    found: dict[Any, Any] = {}
    for row in _rows(path, name, kind):
        held = getattr(row, key)
        for one in held if isinstance(held, tuple) else (held,):
            if one in found:
                raise KnowledgeError(f"{path}: {one} appears twice")
            found[one] = row
    return found


def typed_rows(
    path: str, rows: Sequence[dict[str, Any]], kind: type[_Type], defaults: Mapping[str, Any] = {}
) -> tuple[_Type, ...]:
    """``rows`` of the file ``path``, each as :func:`read_rows` gives it."""
    places = (f"{path}: row {number} ({next(iter(row.values()), '')})" for number, row in enumerate(rows, 1))
    return tuple(_typed({**defaults, **row}, kind, place) for row, place in zip(rows, places, strict=True))


def _typed(row: dict[str, Any], kind: type[_Type], place: str) -> _Type:
    import msgspec  # as above

    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    strange = sorted(set(row) - set(known) - {"source", "checked"})
    needed = [key for key, field in known.items() if field.default is MISSING and field.default_factory is MISSING]
    lacking = [key for key in needed if row.get(key, "") == ""]
    if strange or lacking:
        wrong = (("it has what is not known", strange), ("it lacks", lacking))
        raise KnowledgeError(f"{place}: " + "; ".join(f"{what}: {', '.join(keys)}" for what, keys in wrong if keys))
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise KnowledgeError(f"{place}: {error}") from error
