"""Count how letters follow each other in the words of programs: ``src/unhang/secrets/letter_pairs.txt``.

    python scripts/letter_pairs.py FOLDER... > src/unhang/secrets/letter_pairs.txt

The folders hold Python packages. Every word counts once however often it stands there, so that a name that is used
a thousand times says no more about words than one that is used once. Tests are left out: they hold made-up keys.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from unhang.secrets.letter_statistics import BEGIN, SYMBOLS, as_symbols, encoded

_RUN = re.compile(r"(?<![A-Za-z0-9])(?!0x)(?=\d*[A-Za-z])[A-Za-z0-9]{2,24}")
_HEADER = """\
# How many half bits it takes to say which letter follows which in a word (A: none, B: half a bit ...), as counted by
# scripts/letter_pairs.py over the distinct words of Python's standard library, PyTorch, transformers and NumPy.
# A row a letter, "0" for any digit, the last row the beginning of a word; a column a letter that follows.
"""


def words(folders: Iterable[Path]) -> Iterator[str]:
    """The distinct words of all Python files below ``folders``."""
    seen: set[str] = set()
    for folder in folders:
        for path in folder.rglob("*.py"):
            if "test" not in str(path.relative_to(folder)):
                seen.update(map(str.lower, _RUN.findall(path.read_text(encoding="utf-8", errors="ignore"))))
    yield from seen


def table(found: Iterable[str]) -> Iterator[str]:
    """The rows of the file."""
    pairs = Counter(pair for word in found for pair in pairwise(BEGIN + as_symbols(word)))
    for first in SYMBOLS + BEGIN:
        total = sum(pairs[first, second] + 1 for second in SYMBOLS)
        yield "".join(encoded(-math.log2((pairs[first, second] + 1) / total)) for second in SYMBOLS)


if __name__ == "__main__":
    sys.stdout.write(_HEADER + "".join(f"{row}\n" for row in table(words(map(Path, sys.argv[1:])))))
