"""A :class:`Text` as JSON and back, so that it is shown in the reader's language.

What was carried is somebody's file again when it is read: only a template that our catalogue holds is filled.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from unhang.report.language import catalogue
from unhang.secrets import TEMPLATE
from unhang.sentences import Text

if TYPE_CHECKING:
    from unhang.report.localizer import Localizer

VALUES = "values"
DEEPEST = 4
"""Sentences in sentences."""
_DEEPEST_JSON = 2 * DEEPEST + 1


def text_to_json(text: Text) -> dict[str, Any]:
    """``text`` as JSON can hold it."""
    return {TEMPLATE: text.template, VALUES: {name: _value_to_json(value) for name, value in text.values.items()}}


def _value_to_json(value: Any) -> Any:
    if isinstance(value, Text):
        return text_to_json(value)
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, int) for item in value):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    return str(value)


def clean_serialized(told: Any, clean: Callable[[str], str], deep: int = _DEEPEST_JSON) -> Any:
    """What was carried with every string cleaned but the templates, which are ours; what lies too deep is left out."""
    if isinstance(told, str):
        return clean(told)
    if isinstance(told, list | dict) and deep == 0:
        return None
    if isinstance(told, list):
        return [clean_serialized(item, clean, deep - 1) for item in told]
    if isinstance(told, dict):
        return {
            name: item if name == TEMPLATE else clean_serialized(item, clean, deep - 1) for name, item in told.items()
        }
    return told


def text_from_json(told: Mapping[str, Any] | None, otherwise: str, localizer: Localizer) -> str:
    """The carried sentence as ``localizer`` says it; ``otherwise`` in English, and where it cannot be said."""
    if told is None or localizer.lang == "en":
        return localizer.line(otherwise)
    text = _text(told, catalogue(localizer.lang), DEEPEST)
    if text is None:
        return localizer.line(otherwise)
    try:
        return localizer.line(localizer.say(text))
    except (LookupError, ValueError, TypeError, AttributeError):  # values that do not fit their template
        return localizer.line(otherwise)


def _text(told: Mapping[str, Any], known: Mapping[str, str], deep: int) -> Text | None:
    template, values = told.get(TEMPLATE), told.get(VALUES)
    if deep == 0 or not isinstance(template, str) or template not in known or not isinstance(values, dict):
        return None
    inner = {name: _text(value, known, deep - 1) for name, value in values.items() if isinstance(value, dict)}
    return None if None in inner.values() else Text(template, {**values, **inner})
