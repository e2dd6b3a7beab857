"""What the program that reads a variable makes of its value: NCCL reads ``true`` as 0, torch stops at ``on``."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from unhang.knowledge.job.environment_variables import Variable

_TRUE, _FALSE = ("y", "yes", "1", "t", "true"), ("n", "no", "0", "f", "false")
_INTEGER = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+))")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?::N)?")
_OPEN = ("plugin", "grammar", "not checked", "path", "python level")
"""Words in a row's ``values`` that say that the list is not all there is."""

_MOST = (1 << 63) - 1
_LONGEST = 40
"""Digits that are looked at: more never fit."""


class Outcome(str, enum.Enum):
    """What becomes of a value."""

    FINE = "fine"
    READ_AS = "read as something else"
    IGNORED = "ignored"
    RAISES = "raises"


@dataclass(frozen=True, slots=True)
class Parsed:
    """``value``: what is in force (text of a number, ``1``/``0`` for truth values, the word of an enumeration)."""

    value: str
    outcome: Outcome = Outcome.FINE


def parsed(variable: Variable, text: str) -> Parsed:
    """What the owner of ``variable`` makes of ``text``. A type that is not modelled is taken as it is."""
    if "anything else raises" in variable.values:
        return _torch_bool(text)
    if variable.type.startswith(("int", "bool 0/1", "duration", "uint")):
        return _integer(text, raises=variable.owner == "torch")
    if variable.type == "enum" and not any(word in variable.values.lower() for word in _OPEN):
        return _enum(variable, text)
    return Parsed(text)


def _torch_bool(text: str) -> Parsed:
    word = text.strip().lower()
    if word in _TRUE:
        return Parsed("1")
    return Parsed("0") if word in _FALSE else Parsed("", Outcome.RAISES)


def _integer(text: str, *, raises: bool) -> Parsed:
    """``strtoll`` reads the number at the start, takes no number for 0 and the nearest for one without end;
    ``std::stoi`` raises at both.
    """
    found = _INTEGER.match(text)
    if found is None:
        return Parsed("", Outcome.RAISES) if raises else Parsed("0", Outcome.READ_AS)
    hexadecimal = found[1].lower().lstrip("+-").startswith("0x")
    number = int(found[1][:_LONGEST], 16 if hexadecimal else 10)
    if abs(number) > _MOST:
        nearest = str(_MOST if number > 0 else -_MOST)
        return Parsed("", Outcome.RAISES) if raises else Parsed(nearest, Outcome.READ_AS)
    whole = text[found.end() :].strip() == ""
    return Parsed(str(number), Outcome.FINE if whole else Outcome.READ_AS)


def _enum(variable: Variable, text: str) -> Parsed:
    words = {word.upper() for word in _WORDS.findall(variable.values.split("(")[0])}
    if not words or text.strip().upper() in words or text.strip().isdigit():
        return Parsed(text.strip().upper())
    return Parsed("", Outcome.IGNORED)
