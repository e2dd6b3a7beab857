"""What the program that reads a variable makes of its value: NCCL reads ``true`` as 0, torch stops at ``on``."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from unhang.knowledge.job.environment_variables import EnvironmentVariable

_TRUE, _FALSE = ("y", "yes", "1", "t", "true"), ("n", "no", "0", "f", "false")
_INTEGER = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+))")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?::N)?")
_UNCHECKED_TYPES = ("plugin", "grammar", "not checked", "path", "python level")
"""Words in a row's ``values`` that say that the list is not all there is."""

_MAX_INTEGER = (1 << 63) - 1
_LONGEST = 40
"""Digits that are read: more never fit."""


class ParseOutcome(str, enum.Enum):
    """What becomes of a value."""

    FINE = "fine"
    READ_AS = "read as something else"
    IGNORED = "ignored"
    RAISES = "raises"


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """``value``: what is in force (text of a number, ``1``/``0`` for truth values, the word of an enumeration)."""

    value: str
    outcome: ParseOutcome = ParseOutcome.FINE


def parse_value(variable: EnvironmentVariable, text: str) -> ParsedValue:
    """What the owner of ``variable`` makes of ``text``. A type that is not modelled is taken as it is."""
    if "anything else raises" in variable.values:
        return _torch_bool(text)
    if variable.type.startswith(("int", "bool 0/1", "duration", "uint")):
        return _integer(text, raises=variable.owner == "torch")
    if variable.type == "enum" and not any(word in variable.values.lower() for word in _UNCHECKED_TYPES):
        return _enum(variable, text)
    return ParsedValue(text)


def _torch_bool(text: str) -> ParsedValue:
    word = text.strip().lower()
    if word in _TRUE:
        return ParsedValue("1")
    return ParsedValue("0") if word in _FALSE else ParsedValue("", ParseOutcome.RAISES)


def _integer(text: str, *, raises: bool) -> ParsedValue:
    """``strtoll`` reads the number at the start, takes no number for 0 and the nearest for one without end;
    ``std::stoi`` raises at both.
    """
    found = _INTEGER.match(text)
    if found is None:
        return ParsedValue("", ParseOutcome.RAISES) if raises else ParsedValue("0", ParseOutcome.READ_AS)
    hexadecimal = found[1].lower().lstrip("+-").startswith("0x")
    number = int(found[1][:_LONGEST], 16 if hexadecimal else 10)
    if abs(number) > _MAX_INTEGER:
        nearest = str(_MAX_INTEGER if number > 0 else -_MAX_INTEGER)
        return ParsedValue("", ParseOutcome.RAISES) if raises else ParsedValue(nearest, ParseOutcome.READ_AS)
    whole = text[found.end() :].strip() == ""
    return ParsedValue(str(number), ParseOutcome.FINE if whole else ParseOutcome.READ_AS)


def _enum(variable: EnvironmentVariable, text: str) -> ParsedValue:
    words = {word.upper() for word in _WORDS.findall(variable.values.split("(")[0])}
    if not words or text.strip().upper() in words or text.strip().isdigit():
        return ParsedValue(text.strip().upper())
    return ParsedValue("", ParseOutcome.IGNORED)
