"""The readers, guided by which branches an input takes (atheris): ``python -m tests.fuzz.guided -runs=N``.

Slower by input than ``make fuzz ARGS="--target readers"`` and without its limits; it finds what only a chain of small
changes reaches. A first byte chooses the reader; what it is given is changed as everywhere else. Other words go to
libFuzzer (``-max_total_time=600``, a folder that keeps what took new branches); it leaves a crash in ``crash-*``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["unhang"]):
    from tests.fuzz import reading
    from tests.fuzz.mutators import foreign, mutated

NAMES = tuple(reading.READERS)
PLACE = tempfile.TemporaryDirectory(prefix="unhang-fuzz-")


def one_input(data: bytes) -> None:
    """Raise where the reader breaks its promise."""
    wrong = list(reading.check(NAMES[data[0] % len(NAMES)], data[1:], Path(PLACE.name))) if data else []
    if wrong:
        raise AssertionError(wrong[0])


def change(data: bytes, most: int, seed: int) -> bytes:
    """Our own mutators, from what libFuzzer kept or from a seed."""
    rng = Random(seed)
    if len(data) > 8 and rng.random() < 0.8:
        number, content = data[0] % len(NAMES), data[1:]
    else:
        number = rng.randrange(len(NAMES))
        content = rng.choice(reading.reader_seeds()[NAMES[number]])
    changed = foreign(rng, content) if rng.random() < 0.1 else mutated(rng, content, 1).data
    return bytes([number]) + changed[: most - 1]


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-max_len=20000", *sys.argv[1:]], one_input, custom_mutator=change)
    atheris.Fuzz()
