"""What another rank sent, held against the types that the fields of our own dataclasses have."""

from __future__ import annotations

import math
import re
import string
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from unhang.sentences import Text

MAX_INTEGER = 1 << 64
"""The kernel itself writes no larger number."""
_HOW = re.compile(r"[\w .,|%-]{0,60}")
_WIDTH = re.compile(r"\d{3,}")
_PLAIN = (str, int, float, Text, tuple, list, frozenset, type(None))


def has_valid_types(value: Any) -> bool:
    """Whether every field of the dataclass ``value`` holds what its type says; its own parts were asked before."""
    if isinstance(value, Text):
        return _can_be_said(value)
    kind: type = type(value)
    hints = _hints(kind)
    return all(_fits(getattr(value, field.name), hints[field.name]) for field in fields(value))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple and parts[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_fits, value, parts))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_fits(k, parts[0]) and _fits(v, parts[1]) for k, v in value.items())
    if origin is not None and issubclass(origin, Sequence | frozenset):
        kinds = tuple if origin is tuple else frozenset if origin is frozenset else (tuple, list)
        return isinstance(value, kinds) and all(_fits(item, parts[0]) for item in value)
    if hint in (int, float):
        return _is_number(value, hint)
    return isinstance(value, origin or hint)


def _is_number(value: Any, hint: type) -> bool:
    if isinstance(value, float):
        return hint is float and not math.isnan(value)
    return type(value) is int and abs(value) <= MAX_INTEGER


def _can_be_said(text: Text) -> bool:
    """Whether a sentence has a value for every place, and no place reaches into one or asks for endless room."""
    if not isinstance(text.template, str) or not isinstance(text.values, dict):
        return False
    if not all(isinstance(name, str) and isinstance(value, _PLAIN) for name, value in text.values.items()):
        return False
    places = [place for place in string.Formatter().parse(text.template) if place[1] is not None]
    if not all(name in text.values and _HOW.fullmatch(how or "") and not convert and not _WIDTH.search(how or "")
               for _, name, how, convert in places):  # fmt: skip
        return False
    str(text)  # ValueError where a value cannot be written so
    return True
