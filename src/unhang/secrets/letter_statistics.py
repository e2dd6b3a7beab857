"""How much more a word looks like chance than like a word: by which letters follow which, in bits.

Most keys of services that nobody listed are small letters and digits, ``q7wkz0v4hd1m``, without the capitals in the
middle that give others away; what tells them from ``qwen2vl7b`` is that no language puts such letters side by side.
"""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

SYMBOLS = "abcdefghijklmnopqrstuvwxyz0"
"""Letters, and one for all digits."""
BEGIN = "^"
_ALPHABET = 5
"""So many letters in the order of the alphabet are that, and no key."""
_DIGITS = str.maketrans("123456789", "0" * 9)
_RUN = re.compile(r"[A-Za-z0-9]+")
_RANDOM_BITS = {symbol: math.log2((10 if symbol == "0" else 1) / 36) for symbol in SYMBOLS}
_PLACE = Path(__file__).with_name("letter_pairs.txt")
_A = ord("A")


def randomness_bits(word: str) -> float:
    """How much likelier chance wrote the letters and digits of ``word`` than somebody naming a thing; a logarithm."""
    pairs = _pairs()
    runs = (run.lower() for run in _RUN.findall(word))
    spoken = (BEGIN + as_symbols(run) for run in runs if len(run) < _ALPHABET or run not in SYMBOLS)
    return sum(pairs[pair] for run in spoken for pair in pairwise(run))


def as_symbols(word: str) -> str:
    """``word``, in lower case, in :data:`SYMBOLS`."""
    return word.translate(_DIGITS)


def encoded(bits: float) -> str:
    """A number of the table as its letter."""
    return chr(_A + min(25, round(2 * bits)))


@cache
def _pairs() -> dict[tuple[str, str], float]:
    rows = [line for line in _PLACE.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return {
        (first, second): _RANDOM_BITS[second] + (ord(letter) - _A) / 2
        for first, row in zip(SYMBOLS + BEGIN, rows, strict=True)
        for second, letter in zip(SYMBOLS, row, strict=True)
    }
